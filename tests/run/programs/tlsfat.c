/* tlsfat.c - a library with 256 bytes of TLS that must lie in the static area, since code reaches
 * it by a fixed offset. */
static __thread char fat[256] __attribute__((tls_model("initial-exec"))) = {1};

__attribute__((visibility("default"))) char *ws_test_fat(int i)
{
	return &fat[i];
}
