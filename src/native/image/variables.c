/* A file of variables, and a getenv() that looks into it.
 *
 * The file is mapped privately, so values that no code asks for are never on the heap and are gone
 * with the mapping. Code in C asks by getenv(). Its first bytes are replaced by a jump to
 * `watched_getenv` for as long as the file is open, and the original is not needed meanwhile. Where
 * that cannot be done, code in C finds what the process was started with.
 *
 * Threads of libraries call getenv() at any time: what is below is read and written with the lock.
 */
#define _GNU_SOURCE
#include "variables.h"

#include "../process/detour.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ASKED_BYTES 65536

static char *file_text;
static size_t file_bytes;
static char asked[ASKED_BYTES];
static size_t asked_bytes;
static bool all_asked_are_noted = true;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The thread that forks: it has the lock until the other handlers have run. A thread reads nothing but
   whether it is that one. Variables of threads may need memory, and libc aborts where there is none. */
static _Atomic(pthread_t) forking;

/* ---- the lock ---- */

static void
take_lock(void)
{
    if (forking != pthread_self()) {
        (void)pthread_mutex_lock(&lock);
    }
}

static void
leave_lock(void)
{
    if (forking != pthread_self()) {
        (void)pthread_mutex_unlock(&lock);
    }
}

static void
before_fork(void)
{
    (void)pthread_mutex_lock(&lock);
    forking = pthread_self();
}

static void
after_fork_in_parent(void)
{
    forking = (pthread_t)0;
    (void)pthread_mutex_unlock(&lock);
}

static void
after_fork_in_child(void)
{
    forking = (pthread_t)0;
    (void)pthread_mutex_init(&lock, NULL);
}

/* Once. 0, or errno. */
static int
prepare_forks(void)
{
    static bool prepared;
    int err = prepared ? 0 : pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    prepared = err == 0;
    return err;
}

/* ---- the file ---- */

/* The begin of `NAME=VALUE`, or NULL. */
static char *
find_pair(const char *name, size_t length)
{
    for (char *at = file_text, *end = file_text + file_bytes; at != NULL && at < end;
         at += strlen(at) + 1) {
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            return at;
        }
    }
    return NULL;
}

const char *
variables_find(const char *name, size_t length)
{
    take_lock();
    const char *pair = find_pair(name, length);
    leave_lock();
    return pair != NULL ? pair + length + 1 : NULL;
}

void
variables_hide(const char *name, size_t length)
{
    char *pair;
    take_lock();
    while ((pair = find_pair(name, length)) != NULL) {
        memset(pair, 1, strlen(pair));
    }
    leave_lock();
}

static const char *
next_pair(const char *before)
{
    const char *at = before == NULL ? file_text : before + strlen(before) + 1;
    for (; at != NULL && at < file_text + file_bytes; at += strlen(at) + 1) {
        if (*at > 1) {
            return at;
        }
    }
    return NULL;
}

const char *
variables_next(const char *before)
{
    take_lock();
    const char *pair = next_pair(before);
    leave_lock();
    return pair;
}

/* ---- getenv() ---- */

static bool
was_asked(const char *name)
{
    for (size_t at = 0; at < asked_bytes; at += strlen(asked + at) + 1) {
        if (strcmp(asked + at, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Without space for the name all variables count as asked for. */
static void
note(const char *name, size_t length)
{
    if (length >= sizeof asked - asked_bytes) {
        all_asked_are_noted = false;
        return;
    }
    memcpy(asked + asked_bytes, name, length + 1);
    asked_bytes += length + 1;
}

bool
variables_asked(const char **names, size_t *bytes)
{
    *names = asked;
    *bytes = asked_bytes;
    return all_asked_are_noted;
}

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GLIBC__) \
    && !defined(__SANITIZE_ADDRESS__)

extern char **environ;

static detour watched;

static char *
in_environ(const char *name, size_t length)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=') {
            return *at + length + 1;
        }
    }
    return NULL;
}

/* The caller may keep what it gets for good: a copy becomes part of the environment. */
static char *
taken_over(const char *name, size_t length)
{
    const char *pair = find_pair(name, length);
    char *copy = pair != NULL ? strdup(pair) : NULL;
    if (copy == NULL || putenv(copy) != 0) {
        return NULL;
    }
    return copy + length + 1;
}

/* The first question for a name: what the file has of it becomes part of the environment, and later
   questions are answered from there, where code in C may have deleted it. */
static char *
first_asked(const char *name, size_t length)
{
    note(name, length);
    char *value = in_environ(name, length);
    bool is_asked_in_each_program = strcmp(name, "TZ") == 0; /* by libc */
    return value != NULL || is_asked_in_each_program ? value : taken_over(name, length);
}

static char *
watched_getenv(const char *name)
{
    size_t length = strlen(name);
    if (length == 0) {
        return NULL;
    }
    take_lock();
    bool is_known = file_text == NULL || was_asked(name);
    char *value = is_known ? in_environ(name, length) : first_asked(name, length);
    leave_lock();
    return value;
}

static void
watch_getenv(void)
{
    if (watched.at == NULL) {
        (void)detour_begin(&watched, detour_find("getenv"), (const void *)watched_getenv);
    }
}

/* 0, or errno. */
static int
leave_getenv(void)
{
    return detour_end(&watched);
}

bool
variables_are_missed(void)
{
    return watched.at == NULL;
}

#else

static void
watch_getenv(void)
{
}

static int
leave_getenv(void)
{
    return 0;
}

bool
variables_are_missed(void)
{
    return false;
}

#endif

static int
open_file(int file)
{
    struct stat status;
    if (file_text != NULL || fstat(file, &status) < 0) {
        return file_text != NULL ? EBUSY : errno;
    }
    size_t bytes = (size_t)status.st_size;
    char *text = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED) {
        return errno;
    }
    text[bytes - 1] = 0;
    file_text = text;
    file_bytes = bytes;
    asked_bytes = 0;
    all_asked_are_noted = true;
    watch_getenv();
    return 0;
}

int
variables_open(int file)
{
    int err = prepare_forks();
    if (err) { /* not reached: the C library has room for the first 48 */
        return err;
    }
    take_lock();
    err = open_file(file);
    leave_lock();
    return err;
}

int
variables_close(void)
{
    take_lock();
    int err = leave_getenv();
    char *text = file_text;
    size_t bytes = file_bytes;
    file_text = NULL;
    file_bytes = 0;
    leave_lock();
    if (text != NULL) {
        (void)munmap(text, bytes);
    }
    return err;
}
