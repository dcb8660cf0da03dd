/* A file of variables, and a getenv() that looks into it.
 *
 * The file is mapped privately, so values that nobody asks for are never on the heap and are gone
 * with the mapping. Code in C asks by getenv(). Its first bytes are replaced by a jump to
 * `watched_getenv` for as long as the file is open; nobody needs the original meanwhile. Where that
 * cannot be done, code in C finds what the process was started with.
 */
#define _GNU_SOURCE
#include "variables.h"

#include "../process/os_page.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ASKED_BYTES 65536
#define JUMP_BYTES 18

static char *file_text;
static size_t file_bytes;
static char asked[ASKED_BYTES];
static size_t asked_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
    const char *pair = find_pair(name, length);
    return pair != NULL ? pair + length + 1 : NULL;
}

void
variables_hide(const char *name, size_t length)
{
    char *pair;
    while ((pair = find_pair(name, length)) != NULL) {
        memset(pair, 1, strlen(pair));
    }
}

const char *
variables_next(const char *before)
{
    const char *at = before == NULL ? file_text : before + strlen(before) + 1;
    for (; at != NULL && at < file_text + file_bytes; at += strlen(at) + 1) {
        if (*at > 1) {
            return at;
        }
    }
    return NULL;
}

/* ---- getenv() ---- */

static bool
was_asked(const char *name, size_t length)
{
    for (size_t at = 0; at < asked_bytes; at += strlen(asked + at) + 1) {
        if (strcmp(asked + at, name) == 0) {
            return true;
        }
    }
    return asked_bytes + length + 1 > sizeof asked;
}

static void
note(const char *name, size_t length)
{
    if (!was_asked(name, length)) {
        memcpy(asked + asked_bytes, name, length + 1);
        asked_bytes += length + 1;
    }
}

const char *
variables_asked(size_t *bytes)
{
    *bytes = asked_bytes;
    return asked;
}

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)

extern char **environ;

static uint8_t *patched;
static uint8_t original[JUMP_BYTES];

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

static char *
watched_getenv(const char *name)
{
    size_t length = strlen(name);
    if (length == 0) {
        return NULL;
    }
    (void)pthread_mutex_lock(&lock);
    note(name, length);
    char *value = in_environ(name, length);
    if (value == NULL && strcmp(name, "TZ") != 0) { /* libc asks for that again in each program */
        value = taken_over(name, length);
    }
    (void)pthread_mutex_unlock(&lock);
    return value;
}

static int
write_code(uint8_t *at, const uint8_t *code)
{
    uintptr_t start = (uintptr_t)at & -(uintptr_t)os_page_get_bytes();
    size_t bytes = (uintptr_t)at + JUMP_BYTES - start;
    if (mprotect((void *)start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) < 0) {
        return errno;
    }
    memcpy(at, code, JUMP_BYTES);
    (void)mprotect((void *)start, bytes, PROT_READ | PROT_EXEC);
    return 0;
}

static uint8_t *
find_getenv(void)
{
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, "getenv") : NULL;
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    if (library != NULL) {
        (void)dlclose(library);
    }
    if (found == NULL || !dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) || symbol == NULL
        || symbol->st_size < JUMP_BYTES) {
        return NULL;
    }
    return found;
}

/* endbr64; jmp *0(%rip); the address */
static void
watch_getenv(void)
{
    uint8_t code[JUMP_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25};
    uint64_t target = (uint64_t)(uintptr_t)watched_getenv;
    memcpy(code + 10, &target, sizeof target);
    uint8_t *found = find_getenv();
    if (found == NULL) {
        return;
    }
    memcpy(original, found, sizeof original);
    if (write_code(found, code) == 0) {
        patched = found;
    }
}

static void
leave_getenv(void)
{
    if (patched != NULL && write_code(patched, original) == 0) {
        patched = NULL;
    }
}

bool
variables_are_watched(void)
{
    return patched != NULL;
}

#else

static void
watch_getenv(void)
{
}

static void
leave_getenv(void)
{
}

bool
variables_are_watched(void)
{
    return false;
}

#endif

int
variables_open(int file)
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
    watch_getenv();
    return 0;
}

void
variables_close(void)
{
    leave_getenv();
    if (file_text != NULL) {
        (void)munmap(file_text, file_bytes);
    }
    file_text = NULL;
    file_bytes = 0;
}
