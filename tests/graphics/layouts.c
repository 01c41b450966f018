/* layouts.c - compares what inject/vulkan.h declares with Vulkan's headers; compiling it is the
 * test. */
#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>

#define VK_SUCCESS OWN_SUCCESS
#include "inject/vulkan.h"

#define SAME_SIZE(own, theirs) _Static_assert(sizeof(struct own) == sizeof(theirs), "size of " #own)
#define SAME_PLACE(own, member, theirs, their_member)                                    \
	_Static_assert(offsetof(struct own, member) == offsetof(theirs, their_member) && \
			       sizeof(((struct own *)0)->member) ==                      \
				       sizeof(((theirs *)0)->their_member),              \
		       "place of " #own "." #member)

SAME_PLACE(vk_link, get_instance_function, VkLayerInstanceLink, pfnNextGetInstanceProcAddr);
SAME_PLACE(vk_link, get_instance_function, VkLayerDeviceLink, pfnNextGetInstanceProcAddr);
SAME_PLACE(vk_link, get_device_function, VkLayerDeviceLink, pfnNextGetDeviceProcAddr);
SAME_PLACE(vk_link_info, function, VkLayerInstanceCreateInfo, function);
SAME_PLACE(vk_link_info, link, VkLayerInstanceCreateInfo, u.pLayerInfo);
SAME_PLACE(vk_link_info, link, VkLayerDeviceCreateInfo, u.pLayerInfo);
SAME_SIZE(vk_device_info, VkDeviceCreateInfo);
SAME_PLACE(vk_device_info, extension_count, VkDeviceCreateInfo, enabledExtensionCount);
SAME_PLACE(vk_device_info, extensions, VkDeviceCreateInfo, ppEnabledExtensionNames);
SAME_PLACE(vk_queue_info2, family, VkDeviceQueueInfo2, queueFamilyIndex);
SAME_PLACE(vk_queue_info2, index, VkDeviceQueueInfo2, queueIndex);
SAME_PLACE(vk_command_pool_info, family, VkCommandPoolCreateInfo, queueFamilyIndex);
SAME_PLACE(vk_buffers_info, pool, VkCommandBufferAllocateInfo, commandPool);
SAME_PLACE(vk_buffers_info, level, VkCommandBufferAllocateInfo, level);
SAME_PLACE(vk_buffers_info, count, VkCommandBufferAllocateInfo, commandBufferCount);
SAME_SIZE(vk_submit, VkSubmitInfo);
SAME_PLACE(vk_submit, buffer_count, VkSubmitInfo, commandBufferCount);
SAME_PLACE(vk_submit, buffers, VkSubmitInfo, pCommandBuffers);
SAME_SIZE(vk_submit2, VkSubmitInfo2);
SAME_PLACE(vk_submit2, buffer_count, VkSubmitInfo2, commandBufferInfoCount);
SAME_PLACE(vk_submit2, buffers, VkSubmitInfo2, pCommandBufferInfos);
SAME_SIZE(vk_buffer_submit, VkCommandBufferSubmitInfo);
SAME_PLACE(vk_buffer_submit, buffer, VkCommandBufferSubmitInfo, commandBuffer);
SAME_SIZE(vk_label, VkDebugUtilsLabelEXT);
SAME_PLACE(vk_label, text, VkDebugUtilsLabelEXT, pLabelName);
SAME_PLACE(vk_label, color, VkDebugUtilsLabelEXT, color);
SAME_PLACE(vk_label, text, VkDebugMarkerMarkerInfoEXT, pMarkerName);
SAME_PLACE(vk_object_name, type, VkDebugUtilsObjectNameInfoEXT, objectType);
SAME_PLACE(vk_object_name, handle, VkDebugUtilsObjectNameInfoEXT, objectHandle);
SAME_PLACE(vk_object_name, name, VkDebugUtilsObjectNameInfoEXT, pObjectName);
SAME_PLACE(vk_object_name, handle, VkDebugMarkerObjectNameInfoEXT, object);
SAME_SIZE(vk_query_pool_info, VkQueryPoolCreateInfo);
SAME_PLACE(vk_query_pool_info, type, VkQueryPoolCreateInfo, queryType);
SAME_PLACE(vk_query_pool_info, count, VkQueryPoolCreateInfo, queryCount);
SAME_PLACE(vk_calibrated_info, domain, VkCalibratedTimestampInfoEXT, timeDomain);
SAME_SIZE(vk_family, VkQueueFamilyProperties);
SAME_PLACE(vk_family, timestamp_bits, VkQueueFamilyProperties, timestampValidBits);
SAME_PLACE(vk_multiview_info, count, VkRenderPassMultiviewCreateInfo, subpassCount);
SAME_SIZE(vk_subpass2, VkSubpassDescription2);
SAME_PLACE(vk_subpass2, view_mask, VkSubpassDescription2, viewMask);
SAME_PLACE(vk_pass_info2, subpass_count, VkRenderPassCreateInfo2, subpassCount);
SAME_PLACE(vk_pass_info2, subpasses, VkRenderPassCreateInfo2, pSubpasses);
SAME_PLACE(vk_rendering_info, flags, VkRenderingInfo, flags);
SAME_PLACE(vk_rendering_info, view_mask, VkRenderingInfo, viewMask);
SAME_SIZE(vk_extension, VkExtensionProperties);
SAME_SIZE(vk_properties, VkPhysicalDeviceProperties);
SAME_PLACE(vk_properties, timestamp_period, VkPhysicalDeviceProperties, limits.timestampPeriod);

_Static_assert((int)VK_INSTANCE_CREATE_LINK == (int)VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO,
	       "link");
_Static_assert((int)VK_DEVICE_CREATE_LINK == (int)VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO,
	       "link");
_Static_assert((int)VK_QUERY_POOL_INFO == (int)VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, "pool");
_Static_assert((int)VK_MULTIVIEW_INFO == (int)VK_STRUCTURE_TYPE_RENDER_PASS_MULTIVIEW_CREATE_INFO,
	       "views");
_Static_assert((int)VK_CALIBRATED_INFO == (int)VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT,
	       "clocks");
