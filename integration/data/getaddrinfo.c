/* Asks this machine's libc for names, as most programs do: getaddrinfo with A
 * and AAAA at once. Prints one line a name:
 *
 *   NAME RESULT MILLISECONDS CANONICAL-NAME ADDRESS...
 *
 * RESULT is "ok" or getaddrinfo's error; "-" stands for no canonical name.
 * The first argument is the family: 4, 6 or any. Built with glibc and with musl.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static const char *result(int error)
{
	switch (error) {
	case 0: return "ok";
	case EAI_AGAIN: return "again";
	case EAI_FAIL: return "fail";
	case EAI_NONAME: return "noname";
#ifdef EAI_NODATA
	case EAI_NODATA: return "nodata";
#endif
	default: return "other";
	}
}

static void ask(const char *name, int family)
{
	struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME };
	struct addrinfo *list = NULL;
	struct timespec from, to;
	char text[INET6_ADDRSTRLEN];

	clock_gettime(CLOCK_MONOTONIC, &from);
	int error = getaddrinfo(name, "80", &hints, &list);
	clock_gettime(CLOCK_MONOTONIC, &to);
	double ms = (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6;
	printf("%s %s %.1f %s", name, result(error), ms,
	       !error && list->ai_canonname ? list->ai_canonname : "-");
	for (struct addrinfo *at = error ? NULL : list; at; at = at->ai_next) {
		const void *address = at->ai_family == AF_INET
			? (const void *)&((struct sockaddr_in *)at->ai_addr)->sin_addr
			: (const void *)&((struct sockaddr_in6 *)at->ai_addr)->sin6_addr;
		printf(" %s", inet_ntop(at->ai_family, address, text, sizeof text));
	}
	puts("");
	if (!error)
		freeaddrinfo(list);
}

int main(int count, char **words)
{
	int family = AF_UNSPEC;

	if (count < 3)
		return 2;
	if (!strcmp(words[1], "4"))
		family = AF_INET;
	else if (!strcmp(words[1], "6"))
		family = AF_INET6;
	for (int i = 2; i < count; i++)
		ask(words[i], family);
	return 0;
}
