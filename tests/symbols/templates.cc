/* templates.cc - C++ names: templates, namespaces, lambdas, exceptions on the way. */
#include <unistd.h>

#include <stdexcept>
#include <vector>

namespace shapes
{
template <typename T, int N> struct Box {
	__attribute__((noinline)) T area(T v)
	{
		usleep(300);
		__asm__ volatile("" ::: "memory");
		return v * N;
	}
};

template <typename F> __attribute__((noinline)) int apply(F f)
{
	int r = f();
	__asm__ volatile("" ::: "memory");
	return r;
}
} // namespace shapes

int main()
{
	shapes::Box<double, 3> box;
	int n = shapes::apply([&] { return (int)box.area(2.0); });

	try {
		if (n == 6)
			throw std::runtime_error("caught");
	} catch (const std::runtime_error &) {
		n += shapes::apply([&] { return (int)box.area(1.0); });
	}
	return n == 9 ? 0 : 1;
}
