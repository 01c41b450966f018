/*
 * peer.c - see peer.h.
 *
 * Both ends of a connection over loopback are sockets of one network namespace, so the other end is
 * found by its pair of addresses. An end that cannot be found, though ours can, is not of this
 * namespace; but it may also be one that was closed a moment ago, which our end then knows.
 */
#include "serve/peer.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"

/* One end, seen from its side. */
struct end {
	struct sockaddr_in own, other;
};

struct owner {
	uid_t uid;
	uint64_t inode; /* 0: it was closed by its process */
};

/* ---- sock_diag ---- */

static int ask_diag(int nl, const struct end *end)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 diag;
	} request = {
		.head = {.nlmsg_len = sizeof(request),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.diag = {.sdiag_family = AF_INET,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = ~0u,
			 .id = {.idiag_sport = end->own.sin_port,
				.idiag_dport = end->other.sin_port,
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	request.diag.id.idiag_src[0] = end->own.sin_addr.s_addr;
	request.diag.id.idiag_dst[0] = end->other.sin_addr.s_addr;
	if (sendto(nl, &request, sizeof(request), 0, (struct sockaddr *)&kernel, sizeof(kernel)) !=
	    sizeof(request))
		return -1;
	return 0;
}

static bool is_of_end(const struct inet_diag_msg *msg, const struct end *end)
{
	return msg->id.idiag_sport == end->own.sin_port &&
	       msg->id.idiag_dport == end->other.sin_port;
}

static bool find_by_diag(const struct end *end, struct owner *owner)
{
	union {
		struct nlmsghdr head;
		char bytes[4096];
	} answer;
	const struct inet_diag_msg *msg = NLMSG_DATA(&answer.head);
	int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	ssize_t n = -1;
	bool found;

	if (nl < 0)
		return false;
	/* The kernel has answered once the question is sent. */
	if (!ask_diag(nl, end))
		n = recv(nl, &answer, sizeof(answer), MSG_DONTWAIT);
	close(nl);
	found = n >= (ssize_t)NLMSG_LENGTH(sizeof(*msg)) &&
		answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY && is_of_end(msg, end);
	if (found)
		*owner = (struct owner){msg->idiag_uid, msg->idiag_inode};
	return found;
}

/* ---- /proc/net/tcp ---- */

/* An IPv4 address as the file writes it; in tcp6, where sockets of IPv6 that are connected over
 * IPv4 stand, behind the prefix of such addresses. */
static bool is_address(const char *text, const struct sockaddr_in *address)
{
	static const char mapped[] = "0000000000000000FFFF0000";
	char want[16];

	if (!strncmp(text, mapped, sizeof(mapped) - 1))
		text += sizeof(mapped) - 1;
	snprintf(want, sizeof(want), "%08" PRIX32 ":%04X", (uint32_t)address->sin_addr.s_addr,
		 ntohs(address->sin_port));
	return !strcmp(text, want);
}

static bool find_in_file(const char *path, const struct end *end, struct owner *owner)
{
	char line[512], own[64], other[64];
	FILE *f = fopen(path, "re");
	bool found = false;
	unsigned uid;

	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line, " %*d: %63s %63s %*x %*s %*s %*s %u %*u %" SCNu64, own, other,
			   &uid, &owner->inode) == 4 &&
		    is_address(own, &end->own) && is_address(other, &end->other)) {
			owner->uid = uid;
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

static bool find_in_proc(const struct end *end, struct owner *owner)
{
	return find_in_file("/proc/net/tcp", end, owner) ||
	       find_in_file("/proc/net/tcp6", end, owner);
}

/* ---- the other end ---- */

static enum ws_peer judge_missing(int fd)
{
	struct tcp_info info = {0};
	socklen_t n = sizeof(info);

	/* Were it of this namespace, its closing would have reached our end in the same moment. */
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) || info.tcpi_state != TCP_ESTABLISHED)
		return WS_PEER_GONE;
	return WS_PEER_ELSEWHERE;
}

enum ws_peer ws_find_peer(int fd, uid_t *uid)
{
	typedef bool find_fn(const struct end *end, struct owner *owner);
	find_fn *const ways[] = {find_by_diag, find_in_proc};
	struct end peer = {0}, self;
	socklen_t n = sizeof(peer.own), m = sizeof(peer.other);
	struct owner owner;

	if (getpeername(fd, (struct sockaddr *)&peer.own, &n) ||
	    getsockname(fd, (struct sockaddr *)&peer.other, &m))
		return WS_PEER_GONE;
	self = (struct end){peer.other, peer.own};
	for (size_t i = 0; i < WS_COUNT(ways); i++) {
		if (ways[i](&peer, &owner)) {
			/* A socket without a process is shown as one of root's. */
			if (!owner.inode)
				return WS_PEER_GONE;
			*uid = owner.uid;
			return WS_PEER_USER;
		}
		/* Only a way that finds our end can say that it does not find the other. */
		if (ways[i](&self, &owner))
			return judge_missing(fd);
	}
	return WS_PEER_UNKNOWN;
}

/* ---- who is trusted ---- */

static void add_user(struct ws_trusted_users *users, unsigned long uid)
{
	/* 2^32 - 1 stands for none. */
	if (uid < UINT32_MAX && !ws_is_trusted_user(users, (uid_t)uid))
		users->uid[users->n++] = (uid_t)uid;
}

static void add_named_user(struct ws_trusted_users *users, const char *text)
{
	char *end;
	unsigned long uid = text ? strtoul(text, &end, 10) : 0;

	if (text && end != text && (!*end || *end == '\n'))
		add_user(users, uid);
}

static void add_login_user(struct ws_trusted_users *users)
{
	char text[32];
	FILE *f = fopen("/proc/self/loginuid", "re");

	if (f && fgets(text, sizeof(text), f))
		add_named_user(users, text);
	if (f)
		fclose(f);
}

void ws_find_trusted_users(struct ws_trusted_users *users)
{
	users->n = 0;
	add_user(users, geteuid());
	add_user(users, 0);
	if (geteuid())
		return;
	add_named_user(users, getenv("SUDO_UID"));
	add_named_user(users, getenv("PKEXEC_UID"));
	add_login_user(users);
}

bool ws_is_trusted_user(const struct ws_trusted_users *users, uid_t uid)
{
	for (size_t i = 0; i < users->n; i++)
		if (users->uid[i] == uid)
			return true;
	return false;
}
