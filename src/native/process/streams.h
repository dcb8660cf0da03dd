/* Sockets and epolls that a fork has copied: what a descriptor is, and what replaces it in a child.
 *
 * A description changes nothing: a flag as O_NONBLOCK is one of the open file, which all processes
 * share that have a descriptor of it, and an error of a socket is reported once. streams_isolate()
 * changes descriptors of the calling process and no open file that was there before.
 */
#ifndef PASTURE_STREAMS_H
#define PASTURE_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define STREAMS_ADDRESS_BYTES 112 /* more than a path of AF_UNIX has */

/* In words: "127.0.0.1:80", "::1:80", "2:80" (AF_VSOCK), a path, or an abstract name, which has bytes
   of 0. Empty where there is none, and for other families. */
typedef struct {
    size_t length;
    char text[STREAMS_ADDRESS_BYTES];
} streams_address;

typedef struct {
    int family, kind; /* AF_..., SOCK_... */
    bool is_listening;
    bool is_connecting; /* TCP: it waits for the answer to its SYN */
    bool is_connected;
    bool is_at_end;            /* no process will ever read a byte there */
    long long acked, received; /* bytes of TCP, acked with the one of its SYN; -1: not known */
    streams_address own, peer;
} streams_facts;

/* Returns 0 or errno: ENOTSOCK for another file. */
int streams_describe(int number, streams_facts *facts);

/* An end for a child that may open no more files, made by its parent. Each call makes one if the last
   is gone. Returns 0 or errno. */
int streams_keep_spare(void);

/* A descriptor with the inode that it had. */
typedef struct {
    int number;
    ino_t inode;
} streams_noted;

/* Put a dead end over each stream: a connection of its own whose other end has been closed, with the
 * same O_NONBLOCK and FD_CLOEXEC. Over TCP that is a connection through the loopback, which takes a
 * first write as that to a server does that has just closed; elsewhere, and where there is no
 * loopback, an end of an AF_UNIX pair. Then put an epoll of its own over each epoll: it watches the same
 * descriptors with the same data. A number that has another inode by now stays.
 *
 * In a child, before other threads. Waits a few tenths of a second at most, for a loopback that does not
 * answer. Returns 0, or the errno of the last descriptor for which that failed: such a stream is
 * closed, such an epoll is left as it is.
 */
int streams_isolate(const streams_noted *streams, size_t count, const int *epolls,
                    size_t epoll_count);

#endif
