/* tlsfat.c - a library with 256 bytes of TLS that must lie in the static area. */
__attribute__((visibility("default"))) __thread char ws_test_fat[256] __attribute__((tls_model("initial-exec"))) = {1};
