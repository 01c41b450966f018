// cxx.cpp - C++ threads, a condition variable with a steady-clock timeout (pthread_cond_clockwait), and exceptions through calls.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>
#include <unistd.h>

using namespace std::chrono_literals;

int main()
{
	std::mutex m;
	std::condition_variable cv;
	std::vector<std::thread> threads;
	int timeouts = 0, caught = 0;

	for (int i = 0; i < 4; i++)
		threads.emplace_back([&] {
			for (int k = 0; k < 5; k++) {
				std::unique_lock<std::mutex> l(m);
				if (cv.wait_until(l, std::chrono::steady_clock::now() + 2ms) == std::cv_status::timeout)
					timeouts++;
			}
		});
	for (auto &t : threads)
		t.join();
	for (int i = 0; i < 3; i++) {
		try {
			std::this_thread::sleep_for(1ms);
			throw std::runtime_error("thrown");
		} catch (const std::exception &) {
			caught++;
		}
	}
	std::printf("%d timeouts, %d caught\n", timeouts, caught);
	return 6;
}
