// cxx.cc - scenarios in C++: the library's threads and locks, exceptions and forced unwinding
// through traced calls.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cxxabi.h>
#include <fstream>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scenario.h"

using namespace std::chrono_literals;

static std::atomic<int> destroyed, tid;

struct guard {
	~guard()
	{
		destroyed++;
		usleep(1500);
	}
};

static void library()
{
	std::timed_mutex timed;
	std::shared_timed_mutex shared;
	std::mutex m;
	std::condition_variable cv;
	std::unique_lock<std::mutex> lock(m);
	bool done = false;

	CHECK(cv.wait_for(lock, 5ms) == std::cv_status::timeout); /* pthread_cond_clockwait */
	want("name=pthread_cond_clockwait n=1 error=%d object=%lu", ETIMEDOUT, (unsigned long)&cv);
	auto f = std::async(std::launch::async, [&] {
		std::this_thread::sleep_for(3ms);
		std::lock_guard<std::mutex> g(m);
		done = true;
		cv.notify_all();
		return 42;
	});
	cv.wait(lock, [&] { return done; });
	CHECK(f.get() == 42);
	want("name=pthread_cond_wait n=1 error=0 object=%lu", (unsigned long)&cv);
	timed.lock();
	std::thread t([&] { CHECK(!timed.try_lock_for(5ms)); });
	t.join();
	timed.unlock();
	want("name=pthread_mutex_clocklock n=1 error=%d object=%lu", ETIMEDOUT,
	     (unsigned long)&timed);
	shared.lock();
	std::thread t2([&] { CHECK(!shared.try_lock_shared_for(5ms)); });
	t2.join();
	want("name=pthread_rwlock_clockrdlock n=1 error=%d", ETIMEDOUT);
	std::ofstream("cxx-stream") << std::string(1 << 20, 'x') << std::flush;
	std::ifstream in("cxx-stream");
	std::string word;
	CHECK(in >> word && word.size() == 1 << 20);
	unlink("cxx-stream");
	want("name=pthread_create n=3");
}

static int fds[2];

static void *reads_with_guard(void *)
{
	guard g;
	char c;

	tid = (int)syscall(SYS_gettid);
	try {
		CHECK(read(fds[0], &c, 1) == 1);
	} catch (abi::__forced_unwind &) {
		destroyed++;
		throw;
	}
	return nullptr;
}

static void cancellation()
{
	void *result;
	pthread_t t;

	CHECK(!pipe(fds));
	CHECK(!pthread_create(&t, nullptr, reads_with_guard, nullptr));
	while (!tid)
		usleep(100);
	usleep(20000);
	CHECK(!pthread_cancel(t));
	CHECK(!pthread_join(t, &result));
	CHECK(result == PTHREAD_CANCELED && destroyed == 2);
	want("name=read tid=%d n=1 error=%d nesting=0", (int)tid, ECANCELED);
	want("name=usleep tid=%d n=1 nesting=0", (int)tid);
}

/* An exception thrown by a stream's own functions goes through fread and our wrapper of it. */
static ssize_t throws(void *, char *, size_t)
{
	usleep(1500);
	throw std::runtime_error("from below");
}

static void exceptions()
{
	cookie_io_functions_t io = {throws, nullptr, nullptr, nullptr};

	for (int i = 0; i < 5; i++) {
		FILE *f = fopencookie(nullptr, "r", io);
		char buf[16];
		bool caught = false;

		CHECK(f);
		try {
			guard g;
			CHECK(fread_unlocked(buf, 1, sizeof(buf), f) == 12345);
		} catch (std::runtime_error &e) {
			caught = std::string(e.what()) == "from below";
		}
		CHECK(caught);
	}
	CHECK(destroyed == 5);
	want("name=fread_unlocked n=5 error=%d nesting=0", ECANCELED);
	want("name=usleep n=5 nesting=1");
	want("name=usleep n=5 nesting=0");
}

static void exits_in_thread()
{
	std::thread t([] {
		guard g;
		pthread_exit(nullptr);
	});
	t.join();
	CHECK(destroyed == 1);
	want("name=usleep n=1 nesting=0");
}

static const scenario scenarios[] = {
	{"library", library},	    {"cancellation", cancellation},
	{"exceptions", exceptions}, {"exits-in-thread", exits_in_thread},
	{nullptr, nullptr},
};

int main(int argc, char **argv)
{
	return argc > 1 ? run_scenario(scenarios, argv[1]) : list_scenarios(scenarios);
}
