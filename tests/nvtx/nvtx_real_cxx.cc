// nvtx_real_cxx.cc - NVTX's C++ interface, where the machine has it.
#include <nvtx3/nvtx3.hpp>

struct my_domain {
	static constexpr char const *name{"cxx domain"};
};
struct my_message {
	static constexpr char const *message{"registered in C++"};
};

static void traced()
{
	NVTX3_FUNC_RANGE_IN(my_domain);
	nvtx3::scoped_range_in<my_domain> r{
		nvtx3::registered_string_in<my_domain>::get<my_message>(), nvtx3::rgb{1, 2, 3},
		nvtx3::payload{int64_t{-5}}};
	nvtx3::mark_in<my_domain>("mark in C++");
}

int main()
{
	nvtx3::scoped_range outer{"outer in C++"};
	nvtx3::unique_range u{"unique range"};

	traced();
}
