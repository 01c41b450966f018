/* library.c - compiled twice, under the two names of its function: of one size, so that the second
 * is loaded where the first was.
 */
__attribute__((visibility("default"))) void FUNCTION(void (*nap)(void));
void FUNCTION(void (*nap)(void))
{
	nap();
	__asm__ volatile("" ::: "memory");
}
