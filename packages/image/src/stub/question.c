/* The program that compares is the program that records, so that both always mean the same.
 *
 * The host's name is a question of its own: many ask for the system's and keep that alone. */
#define _GNU_SOURCE
#include "question.h"

#include "content.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MAX_GROUPS 65536

static const char *const names[] = {"uname", "affinity", "limit",  "user",     "groups",
                                    "bind6", "host",     "stream", "terminal", "access",
                                    "state", "kind",     "link",   "answer"};
static const char *const terminals[] = {"standard input", "standard output", "standard error",
                                        "/dev/tty"};
#define ASKED_AT 3
enum { TERMINAL = QUESTION_ACCESS - 1, ACCESS, STATE, KIND, LINK };

uint64_t
question_number(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static uint64_t
system_sum(bool is_host)
{
    struct utsname found;
    memset(&found, 0, sizeof found);
    if (uname(&found) < 0) {
        return 0;
    }
    if (is_host) {
        return manifest_sum(found.nodename, strlen(found.nodename));
    }
    memset(found.nodename, 0, sizeof found.nodename);
    return manifest_sum(&found, sizeof found);
}

static uint64_t
groups_sum(void)
{
    static gid_t groups[MAX_GROUPS];
    int count = getgroups(MAX_GROUPS, groups);
    return count < 0 ? 0 : manifest_sum(groups, (uint64_t)count * sizeof *groups);
}

/* Whether this process can have a port of its own machine by IPv6. */
static uint64_t
can_bind6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int number = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status = number < 0 ? -1 : bind(number, (struct sockaddr *)&address, sizeof address);
    (void)close(number);
    return status == 0;
}

/* For what was asked, and what of it may be. */
static uint64_t
access_bits(const char *path, uint64_t asked)
{
    uint64_t bits = (asked & 7) << ASKED_AT;
    for (int bit = X_OK; bit <= R_OK; bit *= 2) {
        bits |= asked & (uint64_t)bit && access(path, bit) == 0 ? (uint64_t)bit : 0;
    }
    return bits;
}

uint64_t
question_state(const struct stat *s)
{
    uint64_t known[] = {s->st_mode, s->st_uid, s->st_gid,
                        S_ISREG(s->st_mode) ? (uint64_t)s->st_mtim.tv_sec : 0};
    return manifest_sum(known, sizeof known);
}

/* Where a link leads; 0 for what is none. */
static uint64_t
link_sum(const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target);
    return length < 0 ? 0 : manifest_sum(target, (uint64_t)length);
}

/* What a path or a descriptor of this process's is; 0 if there is nothing. */
static uint64_t
kind_of(const char *path, int descriptor)
{
    struct stat s;
    int missing = path != NULL ? stat(path, &s) : fstat(descriptor, &s);
    return missing < 0 ? 0 : s.st_mode & S_IFMT;
}

/* Whether a standard stream is a terminal, or this process has one. */
static uint64_t
is_terminal(uint64_t which)
{
    if (which <= STDERR_FILENO) {
        return (uint64_t)isatty((int)which);
    }
    int own = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    (void)close(own);
    return own >= 0;
}

uint64_t
question_answer(uint64_t number, uint64_t argument, const char *path)
{
    struct rlimit limit = {0, 0};
    uint64_t sum = 0;
    struct stat s;
    uid_t ids[6] = {0};
    cpu_set_t processors;
    switch (number) {
    case 1:
        return system_sum(false);
    case 2:
        CPU_ZERO(&processors);
        (void)sched_getaffinity(0, sizeof processors, &processors);
        return manifest_sum(&processors, sizeof processors);
    case 3:
        (void)getrlimit((int)argument, &limit);
        return manifest_sum(&limit, sizeof limit);
    case 4:
        (void)getresuid(&ids[0], &ids[1], &ids[2]);
        (void)getresgid(&ids[3], &ids[4], &ids[5]);
        return manifest_sum(ids, sizeof ids);
    case 5:
        return groups_sum();
    case 6:
        return can_bind6();
    case 7:
        return system_sum(true);
    case TERMINAL:
        return is_terminal(argument);
    case ACCESS:
        return access_bits(path, argument);
    case STATE:
        return stat(path, &s) < 0 ? 0 : question_state(&s);
    case LINK:
        return link_sum(path);
    case QUESTION_ANSWER:
        return content_sum_of_path(path, &sum) ? sum : 0;
    default:
        return kind_of(path, (int)argument);
    }
}

const char *
question_differs(const manifest *m)
{
    static char terminal[64];
    const manifest_question *asked = manifest_at(m, m->questions_at);
    for (uint64_t i = 0; i < m->questions; i++) {
        bool has_path = question_has_path(asked[i].number);
        const char *path = has_path ? manifest_at(m, asked[i].argument) : NULL;
        uint64_t argument = has_path ? asked[i].answer >> ASKED_AT : asked[i].argument;
        if (question_answer(asked[i].number, argument, path) == asked[i].answer) {
            continue;
        }
        if (asked[i].number == TERMINAL) {
            snprintf(terminal, sizeof terminal, "whether %s is a terminal",
                     terminals[argument & 3]);
            return terminal;
        }
        return has_path ? path : names[asked[i].number - 1];
    }
    return NULL;
}
