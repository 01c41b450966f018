/* static.c - linked statically: the loader's LD_PRELOAD does not reach it. Exits with its argument.
 */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	usleep(2000);
	return argc > 1 ? atoi(argv[1]) : 0;
}
