/* The peer is looked at through /proc while a descriptor of the process (pidfd) says that it is
 * still there: so its number cannot have become another process's. */
#define _GNU_SOURCE
#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#  define SYS_pidfd_open 434
#endif
#ifndef SO_PEERPIDFD
#  define SO_PEERPIDFD 77
#endif

static const char *const namespaces[] = {
    "cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts", "pid_for_children"};
static const char *const lines[] = {"Uid:",    "Gid:",    "Groups:", "CapInh:",     "CapPrm:",
                                    "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:"};

static ssize_t
link_of(const char *process, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/%s", process, name);
    ssize_t length = readlink(path, text, size - 1);
    text[length < 0 ? 0 : length] = 0;
    return length;
}

static bool
same_link(const char *peer, const char *name)
{
    char own[256], other[256];
    ssize_t own_length = link_of("self", name, own, sizeof own);
    ssize_t other_length = link_of(peer, name, other, sizeof other);
    return own_length == other_length && strcmp(own, other) == 0;
}

static bool
read_text(const char *process, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/%s", process, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    text[0] = 0;
    if (file < 0) {
        return false;
    }
    ssize_t length = read(file, text, size - 1);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    return length > 0;
}

static bool
same_line(const char *own, const char *other, const char *name)
{
    const char *a = strstr(own, name), *b = strstr(other, name);
    if (a == NULL || b == NULL) {
        return a == b;
    }
    size_t length = strcspn(a, "\n");
    return length == strcspn(b, "\n") && memcmp(a, b, length) == 0;
}

/* It would take the request when it goes on. */
static bool
is_stopped(const char *status)
{
    const char *state = strstr(status, "State:\t");
    return state != NULL && strchr("TtZX", state[sizeof "State:\t" - 1]) != NULL;
}

static const char *
status_differs(const char *peer)
{
    static char own[8192], other[8192];
    if (!read_text("self", "status", own, sizeof own)
        || !read_text(peer, "status", other, sizeof other)) {
        return "/proc does not show the zygote";
    }
    if (is_stopped(other)) {
        return "the zygote's server is stopped";
    }
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (!same_line(own, other, lines[i])) {
            return lines[i];
        }
    }
    return NULL;
}

/* By which SELinux, AppArmor or Smack knows a process; empty without one of them. */
static bool
same_label(const char *peer)
{
    static char own[1024], other[1024];
    (void)read_text("self", "attr/current", own, sizeof own);
    (void)read_text(peer, "attr/current", other, sizeof other);
    return strcmp(own, other) == 0;
}

static const char *
process_differs(const char *peer)
{
    char name[32];
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        snprintf(name, sizeof name, "ns/%s", namespaces[i]);
        if (!same_link(peer, name)) {
            return "another namespace";
        }
    }
    if (!same_link(peer, "root")) {
        return "another root directory";
    }
    return same_label(peer) ? status_differs(peer) : "another label of a security module";
}

const char *
peer_differs(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        return "the zygote cannot be identified";
    }
    if (peer.uid != geteuid() || peer.uid != getuid()) {
        return "another user";
    }
    int process = -1;
    size = sizeof process;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &process, &size) < 0) {
        process = (int)syscall(SYS_pidfd_open, peer.pid, 0); /* before Linux 6.5 */
    }
    if (process < 0) {
        return "the zygote's process is gone";
    }
    char number[16];
    snprintf(number, sizeof number, "%d", peer.pid);
    const char *difference = process_differs(number);
    struct pollfd ended = {.fd = process, .events = POLLIN};
    if (difference == NULL && poll(&ended, 1, 0) != 0) {
        difference = "the zygote's process is gone";
    }
    close(process);
    return difference;
}
