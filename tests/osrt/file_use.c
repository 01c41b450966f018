/* file_use.c - reads and writes a file in known ways; test_file_sum.py compares them with the
 * report. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

enum { PIECE = 65536, PIECES = 32, FAR = 1 << 20, ITEM = 100, ITEMS = 70, LINES = 100 };

static char buffer[PIECE];

static void expect(int holds)
{
	if (!holds)
		exit(1);
}

/* A file that is read line by line and letter by letter, and then copied by the kernel. */
static void read_lines(void)
{
	FILE *stream = fopen("lines", "w+");
	int n = 0, from, to;

	memset(buffer, 'x', sizeof(buffer));
	for (int i = 1; i <= LINES; i++)
		buffer[i * ITEM - 1] = '\n';
	expect(fwrite(buffer, ITEM, LINES, stream) == LINES);
	fclose(stream);
	for (int by_letter = 0; by_letter < 2; by_letter++) {
		stream = fopen("lines", "r");
		setvbuf(stream, NULL, _IOFBF, 4096);
		while (by_letter ? getc(stream) != EOF : fgets(buffer, 2 * ITEM, stream) != NULL)
			n++;
		fclose(stream);
	}
	expect(n == LINES + LINES * ITEM);
	from = open("lines", O_RDONLY);
	to = open("copied", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	expect(sendfile(to, from, NULL, LINES * ITEM) == LINES * ITEM);
	close(from);
	close(to);
}

int main(void)
{
	int fd = open("in.order", O_RDWR | O_CREAT | O_TRUNC, 0600), copy;
	FILE *stream;

	for (int i = 0; i < PIECES; i++)
		expect(write(fd, buffer, PIECE) == PIECE);
	expect(!lseek(fd, 0, SEEK_SET));
	for (int i = 0; i < PIECES; i++)
		expect(read(fd, buffer, PIECE) == PIECE);
	close(fd);
	fd = open("here.and.there", O_RDWR | O_CREAT | O_TRUNC, 0600);
	expect(!ftruncate(fd, 64L * FAR));
	for (int i = 20; i--;)
		expect(pread(fd, buffer, 512, (off_t)i * FAR) == 512);
	copy = dup(fd);
	for (int i = 20; i--;) {
		expect(lseek(copy, (off_t)i * FAR, SEEK_SET) >= 0);
		expect(read(copy, buffer, 512) == 512);
	}
	close(copy);
	close(fd);
	stream = fopen("items", "w");
	expect(fwrite(buffer, ITEM, ITEMS, stream) == ITEMS);
	fclose(stream);
	read_lines();
	puts("done");
	return 0;
}
