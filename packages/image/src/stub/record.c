/* The program runs under a filter of system calls with a listener (seccomp(2), user notification): a
 * call that looks at a file waits until the other process here has read its path, has asked for
 * itself what is there, and has the kernel go on. So code in C counts, and so do children, and what
 * is not there. No privilege is needed. Where the kernel allows no listener nothing is built.
 *
 * The program starts in a closed world: signals do what they do by default, and none is blocked.
 *
 * Calls that ask for something else than a file are noted by their names. What a file that is open
 * already is asked is not seen, except what only a terminal answers, of the standard streams
 * (ioctl_tty(2)).
 *
 * The path is read from memory that another thread could change before the kernel reads it: good
 * enough to record by, and nothing is allowed or refused by it. Not seen: io_uring. */
#define _GNU_SOURCE
#include "record.h"

#include "content.h"
#include "question.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#  define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1u
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#  define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1u << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#  define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SYS_openat2
#  define SYS_openat2 437
#endif
#ifndef SYS_close_range
#  define SYS_close_range 436
#endif
#ifndef SYS_faccessat2
#  define SYS_faccessat2 439
#endif
#ifdef __x86_64__
#  define OWN_ARCH AUDIT_ARCH_X86_64
#else
#  define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

#define NONE (-1)

/* Arguments by their places: the folder's descriptor, the path, the flags. Without a path the
   descriptor itself is looked at, if there is one. */
typedef struct {
    int number, folder, path, flags;
    const char *name;
} call;

/* Calls of two paths have two rows. */
static const call with_arguments[] = {
    {SYS_openat, 0, 1, 2, "open"},
    {SYS_openat2, 0, 1, NONE, "open"},
    {SYS_newfstatat, 0, 1, 3, "stat"},
    {SYS_statx, 0, 1, 2, "stat"},
    {SYS_fstat, NONE, NONE, 0,
     "stream"}, /* the flags are which; so are those of `stat` without a path */
    {SYS_read, NONE, NONE, 0, "input"},
    {SYS_lseek, NONE, NONE, 0, "input"}, /* of any stream */
    {SYS_faccessat, 0, 1, 2, "access"},  /* the flags are what for */
    {SYS_faccessat2, 0, 1, 2, "access"},
    {SYS_readlinkat, 0, 1, NONE, "readlink"},
    {SYS_getdents64, 0, NONE, NONE, "list"},
    {SYS_execve, NONE, 0, NONE, "exec"},
    {SYS_execveat, 0, 1, 4, "exec"},
    {SYS_statfs, NONE, 0, NONE, "statfs"},
    {SYS_prctl, NONE, NONE, 0, "confine"},
    {SYS_seccomp, NONE, NONE, NONE, "confine"},
    {SYS_ioctl, NONE, NONE, 0, "terminal"},  /* the flags are which stream; or of a socket */
    {SYS_prlimit64, NONE, NONE, 1, "limit"}, /* the flags are which */
    {SYS_fstatfs, 0, NONE, NONE, "statfs"},
    {SYS_socket, NONE, NONE, 0, "network"}, /* of another family than these */
    {SYS_sendto, NONE, NONE, NONE, "network"},
    {SYS_connect, NONE, NONE, NONE, "connect"},
    {SYS_bind, NONE, NONE, NONE, "bind"},
    {SYS_kill, NONE, NONE, 1, "process"}, /* whether another one is there */
    {SYS_chdir, NONE, 0, NONE, "chdir"},
    {SYS_truncate, NONE, 0, NONE, "write"},
    {SYS_mkdirat, 0, 1, NONE, "place"},
    {SYS_unlinkat, 0, 1, NONE, "place"},
    {SYS_symlinkat, 1, 2, NONE, "place"},
    {SYS_linkat, 2, 3, NONE, "place"},
    {SYS_mknodat, 0, 1, NONE, "place"},
    {SYS_utimensat, 0, 1, NONE, "write"},
    {SYS_renameat2, 0, 1, NONE, "place"},
    {SYS_renameat2, 2, 3, NONE, "place"},
#ifdef SYS_renameat
    {SYS_renameat, 0, 1, NONE, "place"},
    {SYS_renameat, 2, 3, NONE, "place"},
#endif
#ifdef __x86_64__
    {SYS_open, NONE, 0, 1, "open"},
    {SYS_creat, NONE, 0, NONE, "write"},
    {SYS_stat, NONE, 0, NONE, "stat"},
    {SYS_lstat, NONE, 0, NONE, "lstat"},
    {SYS_access, NONE, 0, 1, "access"},
    {SYS_readlink, NONE, 0, NONE, "readlink"},
    {SYS_getdents, 0, NONE, NONE, "list"},
    {SYS_mkdir, NONE, 0, NONE, "place"},
    {SYS_rmdir, NONE, 0, NONE, "place"},
    {SYS_unlink, NONE, 0, NONE, "place"},
    {SYS_symlink, NONE, 1, NONE, "place"},
    {SYS_link, NONE, 1, NONE, "place"},
    {SYS_mknod, NONE, 0, NONE, "place"},
    {SYS_getrlimit, NONE, NONE, 0, "limit"},
    {SYS_rename, NONE, 0, NONE, "place"},
    {SYS_rename, NONE, 1, NONE, "place"},
#endif
};

/* Calls by what they ask, whatever of. */
static const struct {
    const char *name;
    int numbers[24]; /* up to a zero */
} asking[] = {
    {"folder", {SYS_getcwd}},
    {"uname", {SYS_uname}},
    {"affinity", {SYS_sched_getaffinity}},
    {"process",
     {SYS_umask, SYS_getpriority, SYS_getsid, SYS_getpgid, SYS_getitimer, SYS_sched_getparam,
      SYS_ioprio_get, SYS_personality, SYS_capget, SYS_shmget, SYS_semget, SYS_msgget, SYS_mq_open,
      SYS_keyctl, SYS_request_key, SYS_sched_getscheduler, SYS_getrusage, SYS_times}},
    {"user", {SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid}},
    {"groups", {SYS_getgroups}},
    {"memory", {SYS_sysinfo}},
    {"filesystem",
     {SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr}},
#ifdef __x86_64__
    {"process", {SYS_getpgrp}},
#endif
};

#define MAX_CALLS 128
static call calls[MAX_CALLS];
static size_t count;

static void
take_calls(void)
{
    memcpy(calls, with_arguments, sizeof with_arguments);
    count = sizeof with_arguments / sizeof *with_arguments;
    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
        for (const int *number = asking[i].numbers; *number; number++) {
            calls[count++] = (call){*number, NONE, NONE, NONE, asking[i].name};
        }
    }
}

#define KIND_OF_REQUEST 0xff00u
#define OF_TERMINALS 0x5400u
#define OF_SOCKETS 0x8900u
#define ALL UINT32_MAX

/* ---- the filter ---- */

static size_t
add(struct sock_filter *code, size_t n, struct sock_filter step)
{
    code[n] = step;
    return n + 1;
}

#define LOAD(field) \
    (struct sock_filter) \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define EQUAL(value, no) (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, no)
#define AT_LEAST(value, no) (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, no)
#define ABOVE(value, yes) (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, value, yes, 0)
#define MASK(value) (struct sock_filter) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, value)
#define RETURN(value) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, value)

/* Calls with rows here are looked at where an argument, masked, is in the range of one. */
static const struct {
    int number, argument;
    uint32_t mask, low, high;
} looked_at[] = {
    {SYS_prctl, 0, ALL, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS},
    {SYS_prctl, 0, ALL, PR_GET_SECCOMP, PR_SET_SECCOMP},
    {SYS_prctl, 0, ALL, PR_GET_TIMERSLACK, PR_GET_TIMERSLACK},
    {SYS_newfstatat, 3, AT_EMPTY_PATH, 0, 0}, /* without a path: of a stream alone */
    {SYS_newfstatat, 0, ALL, STDIN_FILENO, STDERR_FILENO},
    {SYS_statx, 2, AT_EMPTY_PATH, 0, 0},
    {SYS_statx, 0, ALL, STDIN_FILENO, STDERR_FILENO},
    {SYS_fstat, 0, ALL, STDIN_FILENO, STDERR_FILENO},
    {SYS_lseek, 0, ALL, STDIN_FILENO, STDERR_FILENO},
    {SYS_read, 0, ALL, STDIN_FILENO, STDIN_FILENO},
    {SYS_kill, 1, ALL, 0, 0},
    {SYS_ioctl, 1, KIND_OF_REQUEST, OF_SOCKETS, OF_SOCKETS},
    {SYS_ioctl, 1, KIND_OF_REQUEST, OF_TERMINALS, OF_TERMINALS},
    {SYS_socket, 0, ALL, AF_UNSPEC, AF_UNSPEC}, /* of AF_UNIX, AF_INET and AF_INET6 its calls ask */
    {SYS_socket, 0, ALL, AF_INET + 1, AF_INET6 - 1},
    {SYS_socket, 0, ALL, AF_INET6 + 1, ALL},
    {SYS_sendto, 4, ALL, 1, ALL},  /* to an address */
    {SYS_prlimit64, 2, ALL, 0, 0}, /* it sets none */
};

/* The steps for a call behind the one that compares its number. */
static size_t
add_call(struct sock_filter *code, size_t n, const call *c)
{
    uint32_t otherwise = SECCOMP_RET_USER_NOTIF;
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++) {
        if (looked_at[i].number == c->number) {
            n = add(code, n, LOAD(args[looked_at[i].argument]));
            n = add(code, n, MASK(looked_at[i].mask));
            n = add(code, n, AT_LEAST(looked_at[i].low, 2));
            n = add(code, n, ABOVE(looked_at[i].high, 1));
            n = add(code, n, RETURN(SECCOMP_RET_USER_NOTIF));
            otherwise = SECCOMP_RET_ALLOW;
        }
    }
    return add(code, n, RETURN(otherwise));
}

/* The listener, or -1. */
static int
install_filter(void)
{
    static struct sock_filter code[10 * MAX_CALLS + 8];
    size_t n = add(code, 0, LOAD(arch));
    n = add(code, n, EQUAL(OWN_ARCH, 1));
    n = add(code, n, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
    n = add(code, n, RETURN(SECCOMP_RET_ALLOW));
    n = add(code, n, LOAD(nr));
    for (size_t i = 0; i < count; i++) {
        size_t end = add_call(code, n + 1, &calls[i]);
        (void)add(code, n, EQUAL((uint32_t)calls[i].number, (uint8_t)(end - n - 1)));
        n = end;
    }
    n = add(code, n, RETURN(SECCOMP_RET_ALLOW));
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return -1;
    }
    /* A signal does not interrupt a call that is looked at (from Linux 5.19 on). */
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
    return listener >= 0 || errno != EINVAL
               ? listener
               : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* ---- the path of a call ---- */

static pid_t recorded;

static void
say_why_not(const char *what, int error)
{
    fprintf(stderr, "pasture-python: what modules look at cannot be recorded: %s: %s\n", what,
            strerror(error));
}

/* What the program looks at would not be known. */
__attribute__((noreturn)) static void
give_up(const char *what)
{
    say_why_not(what, errno);
    (void)kill(recorded, SIGKILL);
    _exit(126);
}

/* Up to the end of a page at once: the next one may not be there. False if the kernel refuses it. */
static bool
read_text(pid_t thread, uint64_t address, char *text, size_t size)
{
    size_t done = 0;
    while (done < size - 1) {
        size_t part = 4096 - (size_t)((address + done) & 4095);
        part = part < size - 1 - done ? part : size - 1 - done;
        struct iovec here = {text + done, part},
                     there = {(void *)(uintptr_t)(address + done), part};
        ssize_t length = process_vm_readv(thread, &here, 1, &there, 1, 0);
        if (length <= 0) {
            break;
        }
        if (memchr(text + done, 0, (size_t)length) != NULL) {
            return true;
        }
        done += (size_t)length;
    }
    text[done] = 0;
    return done != 0 || errno != EPERM;
}

static void
read_folder(pid_t thread, int descriptor, char *path)
{
    char link[64];
    if (descriptor == AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/%d/cwd", (int)thread);
    }
    else {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)thread, descriptor);
    }
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

/* An absolute path of up to 2 * PATH_MAX bytes; empty where there is none. False if the kernel refuses
   it. */
static bool
read_path(pid_t thread, const call *c, const uint64_t *args, char *path)
{
    char name[PATH_MAX];
    int folder = c->folder == NONE ? AT_FDCWD : (int)args[c->folder];
    path[0] = name[0] = 0;
    if (c->path == NONE && c->folder == NONE) {
        return true;
    }
    if (c->path != NONE && !read_text(thread, args[c->path], name, sizeof name)) {
        return false;
    }
    if (name[0] != '/') {
        read_folder(thread, folder, path);
        strcat(path, name[0] && path[0] ? "/" : "");
    }
    strcat(path, name);
    return true;
}

static bool
is_of_kernel(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
}

/* The same path for this process, in which the thread's own files have other names. */
static void
own_path(pid_t thread, const char *path, char *seen, size_t bytes)
{
    static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    snprintf(seen, bytes, "%s", path);
    if (strncmp(path, "/proc/self/", 11) == 0) {
        snprintf(seen, bytes, "/proc/%d/%s", (int)thread, path + 11);
    }
    else if (strncmp(path, "/dev/fd/", 8) == 0) {
        snprintf(seen, bytes, "/proc/%d/fd/%s", (int)thread, path + 8);
    }
    for (int i = 0; i < 3; i++) {
        if (strcmp(path, streams[i]) == 0) {
            snprintf(seen, bytes, "/proc/%d/fd/%d", (int)thread, i);
        }
    }
}

/* Not one that a child has put in its place. */
static bool
is_own_stream(pid_t thread, int number)
{
    char own[PATH_MAX], other[PATH_MAX];
    read_folder(recorded, number, own);
    read_folder(thread, number, other);
    return strcmp(own, other) == 0;
}

/* What a call with an address asks: for a path, whether IPv6 is there, or for the network. */
static const char *
read_address(pid_t thread, const call *c, const uint64_t *args, char *path)
{
    struct sockaddr_un found = {.sun_family = AF_UNSPEC};
    size_t bytes = args[2] < sizeof found - 1 ? args[2] : sizeof found - 1;
    struct iovec here = {&found, bytes}, there = {(void *)(uintptr_t)args[1], bytes};
    (void)process_vm_readv(thread, &here, 1, &there, 1, 0);
    if (found.sun_family == AF_UNIX && found.sun_path[0] == '/') {
        strcpy(path, found.sun_path);
        return c->name;
    }
    return found.sun_family == AF_INET6 && c->number == SYS_bind ? "bind6" : "network";
}

/* ---- the log ---- */

static bool
follows_links(const call *c, uint64_t flags)
{
    bool by_flag = c->flags != NONE && strcmp(c->name, "open") != 0 && flags & AT_SYMLINK_NOFOLLOW;
    return !by_flag && strcmp(c->name, "lstat") != 0 && strcmp(c->name, "readlink") != 0
           && strcmp(c->name, "place") != 0;
}

static void
note(FILE *log, pid_t thread, const call *c, const uint64_t *args)
{
    static char last_listed[2 * PATH_MAX];
    static uint64_t last_sum;
    char path[2 * PATH_MAX], seen[3 * PATH_MAX];
    struct stat s = {0};
    uint64_t flags = c->flags == NONE ? 0 : args[c->flags], sum = 0;
    bool is_of_socket = c->number == SYS_ioctl && (args[1] & KIND_OF_REQUEST) == OF_SOCKETS;
    bool is_stat = strcmp(c->name, "stat") == 0;
    const char *what = read_path(thread, c, args, path) ? c->name : "blind";
    if (is_stat && c->flags != NONE && flags & AT_EMPTY_PATH) {
        what = "stream";
        flags = args[0];
    }
    bool is_of_stream = strcmp(what, "stream") == 0 || strcmp(what, "input") == 0
                        || (strcmp(what, "terminal") == 0 && !is_of_socket);
    if (is_of_stream && (flags > STDERR_FILENO || !is_own_stream(thread, (int)flags))) {
        return;
    }
    if (c->number == SYS_prctl && flags != PR_SET_NO_NEW_PRIVS && flags != PR_SET_SECCOMP) {
        what = "process";
    }
    if (c->number == SYS_connect || c->number == SYS_bind) {
        what = read_address(thread, c, args, path);
    }
    what = is_of_socket ? "network" : what;
    uint64_t question = question_number(what);
    own_path(thread, path, seen, sizeof seen);
    int missing = fstatat(AT_FDCWD, seen, &s, follows_links(c, flags) ? 0 : AT_SYMLINK_NOFOLLOW);
    int error = missing < 0 ? errno : 0;
    bool is_listed = strcmp(c->name, "list") == 0;
    if (is_listed && strcmp(path, last_listed) != 0) { /* a listing takes several calls */
        (void)content_sum_of_names(path, &last_sum);
        strcpy(last_listed, path);
    }
    if (is_listed) {
        sum = last_sum;
    }
    else if (question) {
        if (is_of_stream) {
            snprintf(seen, sizeof seen, "/proc/%d/fd/%d", (int)thread, (int)flags);
        }
        sum = question_answer(question, flags, seen);
    }
    else if (is_stat || strcmp(what, "lstat") == 0) {
        sum = question_state(&s);
    }
    else if (strcmp(what, "open") == 0 && is_of_kernel(path)) {
        sum = question_answer(QUESTION_ANSWER, 0, seen);
    }
    else {
        last_listed[0] = 0;
    }
    fprintf(log, "%d\t%s\t%llx\t%d\t%x\t%lld\t%lld\t%llu\t%llu\t%llu\t%s%c", (int)thread, what,
            (unsigned long long)flags, error, (unsigned)s.st_mode, (long long)s.st_size,
            (long long)s.st_ctim.tv_sec * 1000000000 + s.st_ctim.tv_nsec,
            (unsigned long long)s.st_ino, (unsigned long long)s.st_dev, (unsigned long long)sum,
            path, 0);
    (void)fflush(log);
}

/* Until the last process under the filter has ended. */
static void
serve(int listener, FILE *log)
{
    struct pollfd ready = {listener, POLLIN, 0};
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1UL); /* both on one processor: faster */
    while (poll(&ready, 1, -1) > 0 && !(ready.revents & POLLHUP)) {
        struct seccomp_notif asked = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) {
            continue; /* a signal has come first */
        }
        for (size_t i = 0; i < count; i++) {
            if (calls[i].number == asked.data.nr) {
                note(log, (pid_t)asked.pid, &calls[i], (const uint64_t *)asked.data.args);
            }
        }
        struct seccomp_notif_resp answer = {asked.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

/* ---- two processes ---- */

static int
send_descriptor(int channel, int descriptor)
{
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    return sendmsg(channel, &message, 0) < 0 ? -1 : 0;
}

static int
take_descriptor(int channel)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec io = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int descriptor = -1;
    ssize_t length = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    if (length < 0) {
        give_up("its listener");
    }
    if (length && CMSG_FIRSTHDR(&message) != NULL) {
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    }
    return descriptor;
}

/* Linux before 5.9 knows no such call. */
static void
close_from(int first)
{
    if (syscall(SYS_close_range, first, ~0u, 0) < 0) {
        for (int i = first; i < 1024; i++) {
            (void)close(i);
        }
    }
}

/* With nothing else open: the reader of a pipe of the program's would wait for this process, too. */
__attribute__((noreturn)) static void
record(int channel, int number)
{
    int listener = take_descriptor(channel);
    if (listener < 0) {
        _exit(126); /* the program has said why */
    }
    if (dup2(listener, 0) < 0 || dup2(number, 1) < 0) {
        give_up("the record");
    }
    close_from(2);
    (void)signal(SIGCHLD, SIG_IGN);
    serve(0, stdout);
    _exit(0);
}

/* What the caller has done to its signals is not the image's. */
static void
close_world(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL);
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void
run(int channel, int log, char **argv)
{
    (void)fcntl(log, F_SETFD, FD_CLOEXEC);
    close_world();
    const char *what = "seccomp";
    int listener = install_filter();
    if (listener >= 0 && send_descriptor(channel, listener) == 0) {
        (void)close(listener);
        (void)close(channel);
        what = argv[0];
        execv(argv[0], argv);
    }
    say_why_not(what, errno);
    _exit(126);
}

/* The program first: a call that it makes once the listener is gone fails with ENOSYS. */
static void
end_all(int number)
{
    (void)number;
    (void)kill(getpgrp() == getpid() ? 0 : recorded, SIGKILL);
    _exit(0);
}

/* The process that started this one may end at any time. */
static void
end_with_parent(pid_t parent)
{
    struct sigaction action = {.sa_handler = end_all};
    sigset_t term;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigprocmask(SIG_UNBLOCK, &term, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent) { /* not reached: a race, in which the other was quicker */
        end_all(SIGTERM);
    }
}

/* The recorder is the parent: a kernel may let no other process read a process's memory (Yama). */
void
record_run(int log, char **argv)
{
    pid_t parent = getppid();
    int pair[2];
    take_calls();
    pid_t child = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 ? fork() : -1;
    if (child < 0) {
        fprintf(stderr, "pasture-python: %s\n", strerror(errno));
        return;
    }
    if (child == 0) {
        (void)close(pair[0]); /* or no end of the other process would be seen */
        run(pair[1], log, argv);
    }
    (void)close(pair[1]);
    recorded = child;
    end_with_parent(parent);
    record(pair[0], log);
}
