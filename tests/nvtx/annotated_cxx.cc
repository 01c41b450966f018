// annotated_cxx.cc - annotate.h in C++: guards, exceptions, and a second source file's worth of use
// in templates.
#include <stdexcept>
#include <thread>

#include "warpsight/annotate.h"

template <typename F> static void timed(const char *name, F f)
{
	ws::range guard(name);
	f();
}

int main()
{
	ws_domain d = ws_domain_create("c++");
	ws_string s = ws_string_register(d, "registered guard");

	timed("outer guard", [&] {
		ws::range in_domain(d, s);
		try {
			ws::range thrown("left by an exception");
			throw std::runtime_error("x");
		} catch (const std::exception &) {
		}
		ws_event e = ws_event_text(d, "event guard");
		ws_event_double(&e, 0.25);
		ws::range with_event(e);
	});
	std::thread t([] { timed("on a thread", [] {}); });
	t.join();
}
