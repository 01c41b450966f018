/* hdf5_abi.h - the part of HDF5's C interface (1.10 and later) that hdf.c uses, so that the build
 * does not need HDF5. The functions are bound by name when the library is opened. */
#ifndef WS_EXPORT_HDF5_ABI_H
#define WS_EXPORT_HDF5_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int64_t hdf5_id;
typedef unsigned long long hdf5_size;

enum { HDF5_TRUNCATE = 2, HDF5_UTF8 = 1, HDF5_SELECT_SET = 0, HDF5_DEFLATE = 1 };
#define HDF5_VARIABLE ((size_t)-1)
#define HDF5_UNLIMITED ((hdf5_size)-1)

struct hdf5_vlen {
	size_t length;
	const void *bytes;
};

/* WS_HDF5(result, name, arguments) */
#define WS_HDF5_FUNCTIONS(WS_HDF5)                                                            \
	WS_HDF5(int, H5dont_atexit, (void))                                                   \
	WS_HDF5(int, H5open, (void))                                                          \
	WS_HDF5(int, H5Eset_auto2, (hdf5_id stack, void *fn, void *data))                     \
	WS_HDF5(hdf5_id, H5Fcreate,                                                           \
		(const char *name, unsigned flags, hdf5_id create, hdf5_id access))           \
	WS_HDF5(int, H5Fclose, (hdf5_id file))                                                \
	WS_HDF5(hdf5_id, H5Gcreate2,                                                          \
		(hdf5_id at, const char *name, hdf5_id link, hdf5_id create, hdf5_id access)) \
	WS_HDF5(int, H5Gclose, (hdf5_id group))                                               \
	WS_HDF5(hdf5_id, H5Screate, (int kind))                                               \
	WS_HDF5(hdf5_id, H5Screate_simple,                                                    \
		(int rank, const hdf5_size *size, const hdf5_size *most))                     \
	WS_HDF5(int, H5Sselect_hyperslab,                                                     \
		(hdf5_id space, int how, const hdf5_size *start, const hdf5_size *stride,     \
		 const hdf5_size *count, const hdf5_size *block))                             \
	WS_HDF5(int, H5Sclose, (hdf5_id space))                                               \
	WS_HDF5(hdf5_id, H5Pcreate, (hdf5_id kind))                                           \
	WS_HDF5(int, H5Pset_chunk, (hdf5_id properties, int rank, const hdf5_size *size))     \
	WS_HDF5(int, H5Pset_shuffle, (hdf5_id properties))                                    \
	WS_HDF5(int, H5Pset_deflate, (hdf5_id properties, unsigned level))                    \
	WS_HDF5(int, H5Pclose, (hdf5_id properties))                                          \
	WS_HDF5(int, H5Zfilter_avail, (int filter))                                           \
	WS_HDF5(hdf5_id, H5Dcreate2,                                                          \
		(hdf5_id at, const char *name, hdf5_id type, hdf5_id space, hdf5_id link,     \
		 hdf5_id create, hdf5_id access))                                             \
	WS_HDF5(int, H5Dset_extent, (hdf5_id dataset, const hdf5_size *size))                 \
	WS_HDF5(hdf5_id, H5Dget_space, (hdf5_id dataset))                                     \
	WS_HDF5(int, H5Dwrite,                                                                \
		(hdf5_id dataset, hdf5_id type, hdf5_id memory, hdf5_id file, hdf5_id how,    \
		 const void *bytes))                                                          \
	WS_HDF5(int, H5Dclose, (hdf5_id dataset))                                             \
	WS_HDF5(hdf5_id, H5Tcopy, (hdf5_id type))                                             \
	WS_HDF5(hdf5_id, H5Tvlen_create, (hdf5_id type))                                      \
	WS_HDF5(int, H5Tset_size, (hdf5_id type, size_t size))                                \
	WS_HDF5(int, H5Tset_cset, (hdf5_id type, int set))                                    \
	WS_HDF5(int, H5Tclose, (hdf5_id type))                                                \
	WS_HDF5(hdf5_id, H5Acreate2,                                                          \
		(hdf5_id at, const char *name, hdf5_id type, hdf5_id space, hdf5_id create,   \
		 hdf5_id access))                                                             \
	WS_HDF5(int, H5Awrite, (hdf5_id attribute, hdf5_id type, const void *bytes))          \
	WS_HDF5(int, H5Aclose, (hdf5_id attribute))

/* Variables that hold ids once H5open has run. */
#define WS_HDF5_IDS(WS_ID)         \
	WS_ID(H5T_NATIVE_INT64_g)  \
	WS_ID(H5T_NATIVE_UINT64_g) \
	WS_ID(H5T_NATIVE_INT32_g)  \
	WS_ID(H5T_NATIVE_UINT32_g) \
	WS_ID(H5T_NATIVE_UINT8_g)  \
	WS_ID(H5T_NATIVE_DOUBLE_g) \
	WS_ID(H5T_C_S1_g)          \
	WS_ID(H5P_CLS_DATASET_CREATE_ID_g)

#endif
