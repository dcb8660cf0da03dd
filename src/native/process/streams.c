/* A dead end over TCP is one connection a descriptor: its state is its own, as that of the stream was.
 *
 * Source: linux/tcp.h (struct tcp_info), linux/vm_sockets.h (struct sockaddr_vm); Linux
 * fs/eventpoll.c, ep_show_fdinfo.
 */
#define _GNU_SOURCE
#include "streams.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOPBACK_MS 100
#define BACKLOG 8
#define MAX_NESTED_EPOLLS 5 /* the kernel's EP_MAX_NESTS is 4 */

#define TCP_STATE_AT 0
#define TCP_BYTES_ACKED_AT 120 /* since Linux 4.1 */
#define TCP_BYTES_RECEIVED_AT 128
#define TCP_INFO_BYTES 136
#define TCP_STATE_SYN_SENT 2

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
    struct {
        sa_family_t family;
        unsigned short zero;
        unsigned port, cid;
    } vm;
    struct sockaddr_storage room;
} address;

static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) <= STREAMS_ADDRESS_BYTES,
              "room for a path");

static int
option(int number, int name, int *value)
{
    socklen_t bytes = sizeof *value;
    return getsockopt(number, SOL_SOCKET, name, value, &bytes) == 0 ? 0 : errno;
}

/* ---- what a descriptor is ---- */

static void
write_path(const address *from, socklen_t bytes, streams_address *to)
{
    const char *path = from->local.sun_path;
    size_t room = (size_t)bytes - offsetof(struct sockaddr_un, sun_path);
    bool is_abstract = room > 0 && path[0] == 0;
    to->length = is_abstract ? room : strnlen(path, room);
    memcpy(to->text, path, to->length);
}

static void
write_address(const address *from, socklen_t bytes, streams_address *to)
{
    char host[INET6_ADDRSTRLEN] = "";
    int written = 0;
    if (from->any.sa_family == AF_UNIX) {
        write_path(from, bytes, to);
        return;
    }
    if (from->any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &from->v4.sin_addr, host, sizeof host);
        written = snprintf(to->text, sizeof to->text, "%s:%u", host, ntohs(from->v4.sin_port));
    }
    else if (from->any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &from->v6.sin6_addr, host, sizeof host);
        written = snprintf(to->text, sizeof to->text, "%s:%u", host, ntohs(from->v6.sin6_port));
    }
    else if (from->any.sa_family == AF_VSOCK) { /* not reached: a machine with AF_VSOCK */
        written = snprintf(to->text, sizeof to->text, "%u:%u", from->vm.cid, from->vm.port);
    }
    to->length = (size_t)written;
}

static void
describe_tcp(int number, streams_facts *facts)
{
    unsigned char info[TCP_INFO_BYTES];
    socklen_t bytes = sizeof info;
    if (getsockopt(number, IPPROTO_TCP, TCP_INFO, info, &bytes) != 0) {
        return; /* a stream of another protocol */
    }
    facts->is_connecting = info[TCP_STATE_AT] == TCP_STATE_SYN_SENT;
    if (bytes == sizeof info) { /* not reached: Linux before 4.1 */
        uint64_t acked, received;
        memcpy(&acked, info + TCP_BYTES_ACKED_AT, sizeof acked);
        memcpy(&received, info + TCP_BYTES_RECEIVED_AT, sizeof received);
        facts->acked = (long long)acked;
        facts->received = (long long)received;
    }
}

/* Not by a recv() that leaves the byte: that would take an error of the socket from its owner. */
static bool
is_at_end(int number)
{
    struct pollfd one = {.fd = number, .events = POLLRDHUP};
    int unread;
    if (poll(&one, 1, 0) != 1 || (one.revents & (POLLRDHUP | POLLHUP)) == 0) {
        return false;
    }
    /* not reached: AF_VSOCK before Linux 6.14, of which it is not known */
    return ioctl(number, FIONREAD, &unread) == 0 && unread == 0;
}

int
streams_describe(int number, streams_facts *facts)
{
    *facts = (streams_facts){.acked = -1, .received = -1};
    int err = option(number, SO_DOMAIN, &facts->family);
    err = err ? err : option(number, SO_TYPE, &facts->kind);
    if (err) {
        return err;
    }
    int listens = 0;
    (void)option(number, SO_ACCEPTCONN, &listens); /* families without it do not listen */
    facts->is_listening = listens != 0;
    address name;
    socklen_t bytes = sizeof name;
    if (getsockname(number, &name.any, &bytes) == 0) { /* not reached: each socket has a name */
        write_address(&name, bytes, &facts->own);
    }
    bytes = sizeof name;
    if (getpeername(number, &name.any, &bytes) == 0) {
        facts->is_connected = true;
        write_address(&name, bytes, &facts->peer);
    }
    if (facts->family == AF_INET || facts->family == AF_INET6) {
        describe_tcp(number, facts);
    }
    facts->is_at_end = facts->is_connected && is_at_end(number);
    return 0;
}

/* ---- a dead end ---- */

/* Also where it cannot be known: a stream is not left alone then. */
static bool
has_inode(int number, ino_t inode)
{
    struct stat status;
    return fstat(number, &status) == 0 ? status.st_ino == inode : errno != EBADF;
}

static int
take_local_end(int kind)
{
    int ends[2];
    if (socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends) != 0) {
        return -errno;
    }
    (void)close(ends[1]);
    return ends[0];
}

/* Two descriptors of one end: an epoll is copied with two files open. */
static streams_noted spare[] = {{.number = -1}, {.number = -1}};

static bool
has_spare(size_t which)
{
    return spare[which].number >= 0 && has_inode(spare[which].number, spare[which].inode);
}

static void
close_spare(void)
{
    for (size_t i = 0; i < 2; i++) {
        if (has_spare(i)) { /* else a program that closes what it does not know has closed it */
            (void)close(spare[i].number);
        }
        spare[i].number = -1;
    }
}

int
streams_keep_spare(void)
{
    if (has_spare(0) && has_spare(1)) {
        return 0;
    }
    close_spare();
    int end = take_local_end(SOCK_STREAM);
    struct stat status;
    if (end < 0 || fstat(end, &status) != 0) {
        return end < 0 ? -end : errno;
    }
    int second = fcntl(end, F_DUPFD_CLOEXEC, 0);
    spare[0] = (streams_noted){.number = end, .inode = status.st_ino};
    spare[1] = (streams_noted){.number = second, .inode = status.st_ino};
    return second < 0 ? errno : 0;
}

/* The parts of connections of one family. */
typedef struct {
    int family;
    int listener; /* -1: not made yet */
    int err;      /* why a loopback of this family is missing; not tried again */
    address at;
    socklen_t bytes;
} loopback;

static int
listen_there(loopback *there)
{
    there->at = (address){.any.sa_family = (sa_family_t)there->family};
    if (there->family == AF_INET) {
        there->at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        there->bytes = sizeof there->at.v4;
    }
    else {
        there->at.v6.sin6_addr = in6addr_loopback;
        there->bytes = sizeof there->at.v6;
    }
    there->listener = socket(there->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* not reached: what can be bound can be listened at, and has a name */
    if (there->listener < 0 || bind(there->listener, &there->at.any, there->bytes) != 0
        || listen(there->listener, BACKLOG) != 0
        || getsockname(there->listener, &there->at.any, &there->bytes) != 0) {
        return errno;
    }
    return 0;
}

/* Returns 0 or errno. The kernel carries a packet over the loopback at once, unless it is busy. */
static int
wait_for(int number, short events)
{
    struct pollfd one = {.fd = number, .events = events};
    int ready;
    do {
        ready = poll(&one, 1, LOOPBACK_MS);
    } while (ready < 0 && errno == EINTR); /* not reached: a signal in that time */
    return ready > 0 ? 0 : ETIMEDOUT; /* not reached: a loopback that loses packets */
}

static bool
is_from(int accepted, const address *wanted, socklen_t bytes)
{
    address from;
    socklen_t from_bytes = sizeof from;
    /* not reached: another process that has found the port */
    return getpeername(accepted, &from.any, &from_bytes) == 0 && from_bytes == bytes
           && memcmp(&from, wanted, bytes) == 0;
}

/* Accept until it is the connection of `mine`, and close all: another process may have found the
   port. Returns 0 or errno. */
static int
close_other_end(const loopback *there, int mine)
{
    address own;
    socklen_t bytes = sizeof own;
    int err = 0;
    bool is_mine = false;
    (void)getsockname(mine, &own.any, &bytes);
    for (int tries = 0; !err && !is_mine && tries < BACKLOG; tries++) {
        err = wait_for(there->listener, POLLIN);
        int accepted = err ? -1 : accept4(there->listener, NULL, NULL, SOCK_CLOEXEC);
        is_mine = accepted >= 0 && is_from(accepted, &own, bytes);
        if (accepted >= 0) {
            (void)close(accepted);
        }
    }
    return is_mine ? 0 : ECONNABORTED;
}

/* Returns a descriptor, or -errno. */
static int
take_network_end(loopback *there)
{
    if (!there->err && there->listener < 0) {
        there->err = listen_there(there);
    }
    if (there->err) {
        return -there->err;
    }
    int mine = socket(there->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (mine < 0) {
        return -errno;
    }
    (void)connect(mine, &there->at.any, there->bytes); /* a failure shows next */
    int err = wait_for(mine, POLLOUT);
    err = err ? err : close_other_end(there, mine); /* not reached: the wait fails */
    if (err) {
        there->err = err;
        (void)close(mine);
        return -err;
    }
    return mine;
}

/* Returns a descriptor, or -errno. */
static int
take_end(const streams_facts *facts, loopback there[2])
{
    int end = -1;
    bool is_network = facts->family == AF_INET || facts->family == AF_INET6;
    if (is_network && facts->kind == SOCK_STREAM) { /* not reached: packets of SCTP */
        for (int i = facts->family == AF_INET6 ? 0 : 1; i < 2 && end < 0; i++) {
            end = take_network_end(&there[i]);
        }
    }
    return end < 0 ? take_local_end(facts->kind) : end;
}

/* No end can be had, and the spare one is gone. Returns 0 or errno: the descriptor is closed then. */
static int
replace_by_nothing(int number)
{
    (void)close(number);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0) {
        return errno;
    }
    if (nothing == number) {
        return 0;
    }
    int err = dup3(nothing, number, O_CLOEXEC) < 0 ? errno : 0;
    (void)close(nothing);
    return err;
}

/* Returns 0 or errno. */
static int
lay_end(int number, loopback there[2])
{
    streams_facts facts = {.family = AF_UNIX, .kind = SOCK_STREAM};
    (void)streams_describe(number, &facts);
    int status = fcntl(number, F_GETFL);
    int close_on_exec = fcntl(number, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0;
    int end = take_end(&facts, there);
    if (end < 0) {
        return has_spare(0) && dup3(spare[0].number, number, close_on_exec) >= 0
                   ? 0
                   : replace_by_nothing(number);
    }
    (void)fcntl(end, F_SETFL, status & O_NONBLOCK);
    int err = dup3(end, number, close_on_exec) < 0 ? replace_by_nothing(number) : 0;
    (void)close(end);
    return err;
}

/* ---- an epoll of its own ---- */

/* The lines of a file of /proc, one after the other, whatever its size. */
typedef struct {
    int file;
    size_t filled, at;
    char text[2048];
} lines;

/* Returns the next line, without its end; NULL behind the last. */
static char *
next_line(lines *from)
{
    for (;;) {
        char *end = memchr(from->text + from->at, '\n', from->filled - from->at);
        if (end != NULL) {
            char *line = from->text + from->at;
            *end = 0;
            from->at = (size_t)(end + 1 - from->text);
            return line;
        }
        from->filled -= from->at;
        memmove(from->text, from->text + from->at, from->filled);
        from->at = 0;
        ssize_t got = read(from->file, from->text + from->filled, sizeof from->text - from->filled);
        if (got <= 0) {
            return NULL;
        }
        from->filled += (size_t)got;
    }
}

/* Returns 0 or errno. The lines are to be closed. */
static int
open_entries(int epoll, lines *from)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
    *from = (lines){.file = open(path, O_RDONLY | O_CLOEXEC)};
    return from->file < 0 ? errno : 0;
}

typedef struct {
    int number;
    bool has_inode;
    unsigned long inode;
    struct epoll_event event;
} entry;

static bool
next_entry(lines *from, entry *found)
{
    char *line;
    while ((line = next_line(from)) != NULL) {
        unsigned events;
        unsigned long long data, position;
        int fields = sscanf(line, "tfd: %d events: %x data: %llx pos:%llu ino:%lx", &found->number,
                            &events, &data, &position, &found->inode);
        if (fields >= 3) {
            found->has_inode = fields == 5; /* since Linux 4.13 */
            found->event = (struct epoll_event){.events = events, .data.u64 = data};
            return true;
        }
    }
    return false;
}

/* Whether the descriptor still leads to the file that the epoll watches; a dead end stands for it. */
static bool
is_same_file(const entry *one, const streams_noted *streams, size_t count)
{
    /* not reached: Linux before 4.13 */
    if (!one->has_inode || has_inode(one->number, one->inode)) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (streams[i].number == one->number) {
            return streams[i].inode == one->inode;
        }
    }
    return false;
}

static bool
is_epoll(int number)
{
    char path[40], target[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    ssize_t length = readlink(path, target, sizeof target);
    static const char wanted[] = "anon_inode:[eventpoll]";
    /* not reached: another kind with a name as long */
    return length == (ssize_t)sizeof wanted - 1 && memcmp(target, wanted, sizeof wanted - 1) == 0;
}

/* Returns 0 or errno. */
static int
copy_epoll(int number, lines *from, const streams_noted *streams, size_t count)
{
    int close_on_exec = fcntl(number, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0;
    int own = epoll_create1(EPOLL_CLOEXEC);
    if (own < 0) {
        return errno;
    }
    entry one;
    while (next_entry(from, &one)) {
        if (is_same_file(&one, streams, count)) {
            (void)epoll_ctl(own, EPOLL_CTL_ADD, one.number, &one.event);
        }
    }
    int err = dup3(own, number, close_on_exec) < 0 ? errno : 0;
    (void)close(own);
    return err;
}

typedef struct {
    const streams_noted *streams;
    size_t count;
    const int *epolls;
    size_t epoll_count;
} inherited;

static bool
is_inherited_epoll(int number, const inherited *all)
{
    for (size_t i = 0; i < all->epoll_count; i++) {
        if (all->epolls[i] == number) {
            return is_epoll(number);
        }
    }
    return false;
}

/* Epolls below this one, as far as they are inherited: the longest way down. */
static int
depth_of(int number, const inherited *all, int limit)
{
    lines from;
    int deepest = 0;
    if (all->epoll_count < 2 || limit == 0 || open_entries(number, &from) != 0) {
        return 0;
    }
    entry one;
    while (next_entry(&from, &one)) {
        if (is_inherited_epoll(one.number, all)) {
            int depth = 1 + depth_of(one.number, all, limit - 1);
            deepest = depth > deepest ? depth : deepest;
        }
    }
    (void)close(from.file);
    return deepest;
}

/* Returns 0 or errno. */
static int
make_private(int number, const inherited *all)
{
    lines from;
    int err = open_entries(number, &from);
    if (!err) {
        err = copy_epoll(number, &from, all->streams, all->count);
        (void)close(from.file);
    }
    return err;
}

/* Inner ones first: those that watch them watch the new ones. Returns 0 or the last errno. */
static int
make_all_private(const inherited *all)
{
    int last = 0;
    for (int depth = 0; depth <= MAX_NESTED_EPOLLS; depth++) {
        for (size_t i = 0; i < all->epoll_count; i++) {
            int number = all->epolls[i];
            if (is_epoll(number) && depth_of(number, all, MAX_NESTED_EPOLLS) == depth) {
                int err = make_private(number, all);
                last = err ? err : last;
            }
        }
        if (all->epoll_count < 2) {
            break;
        }
    }
    return last;
}

int
streams_isolate(const streams_noted *streams, size_t count, const int *epolls, size_t epoll_count)
{
    int last = 0;
    loopback there[] = {{.family = AF_INET6, .listener = -1}, {.family = AF_INET, .listener = -1}};
    for (size_t i = 0; i < count; i++) {
        if (has_inode(streams[i].number, streams[i].inode)) {
            int err = lay_end(streams[i].number, there);
            last = err ? err : last;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        if (there[i].listener >= 0) {
            (void)close(there[i].listener);
        }
    }
    close_spare(); /* room for the files below */
    const inherited all = {streams, count, epolls, epoll_count};
    int err = make_all_private(&all);
    return err ? err : last;
}
