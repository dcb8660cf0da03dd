/* Images lie in $XDG_CACHE_HOME/pasture/images, or ~/.cache/pasture/images, a folder of the user's
 * alone. A name is a checksum of the program, the interpreter with its options, the variables that
 * matter to every start, and the machine: each has an image of its own, so that no two of them make
 * theirs by turns. Two programs of one name would start out of one image, which is right, too:
 * it is compared like any other.
 *
 * Next to an image: `.lock`, which the process that makes it keeps locked; `.failed`, why there is no
 * image. The first start writes which modules it imports into memory that it shares with that
 * process. */
#define _GNU_SOURCE
#include "auto.h"

#include "descriptors.h"
#include "host.h"
#include "imports.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_ALLOW_SEALING
#  define MFD_ALLOW_SEALING 2u
#endif

#define PLAIN "._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define SEEN "_PASTURE_SEEN"
#define SEEN_BYTES (256 * 1024)
#define AGAIN_S (24 * 60 * 60) /* a build that failed is tried again after that */
#define USED_S (60 * 60)       /* how exactly the last use is known */
#define LOCK 3                 /* descriptors of the process that makes the image: the lock, */
#define NAMES 4                /* and what the program imports */

extern char **environ;

/* ---- the name: FNV-1a ---- */

static uint64_t
with_text(uint64_t sum, const char *text)
{
    do {
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    } while (*text++);
    return sum;
}

static uint64_t
with_number(uint64_t sum, uint64_t number)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
    return with_text(sum, text);
}

#define EMPTY UINT64_C(0xcbf29ce484222325)

static bool
matters(const char *variable)
{
    static const char *const begin[] = {"PYTHON", "LC_", "LD_", "LANG=", "LANGUAGE=", "HOME="};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        if (strncmp(variable, begin[i], strlen(begin[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The same in whatever order they are. */
static uint64_t
sum_of_variables(void)
{
    uint64_t sum = 0;
    for (char **at = environ; *at != NULL; at++) {
        sum += matters(*at) ? with_text(EMPTY, *at) : 0;
    }
    return sum;
}

static uint64_t
sum_of_host(void)
{
    host_fact facts[HOST_FACTS];
    uint64_t sum = EMPTY;
    host_find(facts);
    for (size_t i = 0; i < HOST_FACTS; i++) {
        sum = facts[i].rule == HOST_SAME ? with_number(sum, facts[i].value) : sum;
    }
    return sum;
}

/* A script by its path, a module by its name, a command by what it imports. */
static const char *
identity(const command_line *line)
{
    static char text[PATH_MAX + 8192];
    if (line->kind == 'f') {
        return realpath(line->text, text);
    }
    if (line->kind == 'c') {
        imports_find(line->text, text, sizeof text);
        return *text ? text : NULL;
    }
    return line->kind == 'm' ? line->text : NULL;
}

/* For people, who look into the folder. */
static void
put_label(char *label, size_t size, const command_line *line, const char *text)
{
    const char *name = strrchr(text, '/');
    name = line->kind == 'c' ? "c" : name != NULL ? name + 1 : text;
    size_t i = 0;
    for (; name[i] && i < size - 1; i++) {
        bool is_plain = strchr(PLAIN, name[i]) != NULL && (i || name[i] != '.');
        label[i] = is_plain ? name[i] : '-';
    }
    label[i] = 0;
}

/* ---- the folder ---- */

static bool
is_ours_alone(const char *folder)
{
    struct stat s;
    return (mkdir(folder, 0700) == 0 || errno == EEXIST) && lstat(folder, &s) == 0
           && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 022) == 0;
}

static bool
find_folder(char *folder, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (cache != NULL && cache[0] == '/') {
        length = snprintf(folder, size, "%s", cache);
    }
    else if (home != NULL && home[0] == '/') {
        length = snprintf(folder, size, "%s/.cache", home);
    }
    else {
        return false;
    }
    return (size_t)length + sizeof "/pasture/images" <= size && is_ours_alone(folder)
           && is_ours_alone(strcat(folder, "/pasture")) && is_ours_alone(strcat(folder, "/images"));
}

const char *
auto_place(const char *python, const command_line *line, const char **why)
{
    static char place[PATH_MAX];
    char folder[PATH_MAX - 128], label[32];
    const char *text = identity(line);
    if (text == NULL) {
        *why = "no image is made for a program without a name";
        return NULL;
    }
    if (!find_folder(folder, sizeof folder)) {
        *why = "there is no cache folder of this user alone for images";
        return NULL;
    }
    uint64_t sum = with_text(with_text(EMPTY, python), text);
    for (size_t i = 0; i < line->options; i++) {
        sum = with_text(sum, line->option[i]);
    }
    sum = with_number(with_number(sum, sum_of_variables()), sum_of_host());
    put_label(label, sizeof label, line, text);
    snprintf(place, sizeof place, "%s/%s-%016llx.img", folder, label, (unsigned long long)sum);
    return place;
}

void
auto_used(const char *place)
{
    struct stat s;
    if (stat(place, &s) == 0 && time(NULL) - s.st_mtim.tv_sec > USED_S) {
        (void)utimensat(AT_FDCWD, place, NULL, 0);
    }
}

/* ---- the process that makes it ---- */

static const char *
beside(const char *place, const char *end)
{
    static char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s.%s", place, end);
    return path;
}

static bool
has_failed(const char *place)
{
    struct stat s;
    return stat(beside(place, "failed"), &s) == 0 && time(NULL) - s.st_mtim.tv_sec < AGAIN_S;
}

static int
lock(const char *place)
{
    int file = open(beside(place, "lock"), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) < 0) {
        (void)close(file);
        return -1;
    }
    return file;
}

/* Memory that cannot shrink, so that writing to it never fails; -1 if there is none. It is inherited:
   the start file that maps it closes it. */
static int
names_seen(void)
{
    int file = (int)syscall(SYS_memfd_create, "pasture-seen", MFD_ALLOW_SEALING);
    if (file >= 0
        && (ftruncate(file, SEEN_BYTES) < 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) < 0)) {
        (void)close(file);
        return -1;
    }
    return file;
}

/* Nothing of the caller's stays open, so that no reader of a pipe waits for this process; -1 if that
   cannot be. */
static int
leave_caller(int locked, int names)
{
    int null = open("/dev/null", O_RDWR);
    locked = fcntl(locked, F_DUPFD_CLOEXEC, NAMES + 1); /* out of the way of the other */
    names = fcntl(names, F_DUPFD_CLOEXEC, NAMES + 1);
    int failed =
        (dup2(locked, LOCK) | dup2(names, NAMES) | dup2(null, 0) | dup2(null, 1) | dup2(null, 2))
        < 0;
    close_from(NAMES + 1);
    (void)setpriority(PRIO_PROCESS, 0, 19);
    (void)unsetenv("PASTURE");
    (void)unsetenv(SEEN);
    (void)setenv("PASTURE_IMAGE", "0", 1);
    (void)!chdir("/");
    return -failed;
}

__attribute__((noreturn)) static void
make(const char *place, const char *python, const command_line *line, pid_t program, int locked,
     int names)
{
    char pid[24], kind[2] = {line->kind, 0};
    char *argv[8 + OPTIONS_MAX + 1] = {(char *)python, "-P", "-m", "pasture_image.start.auto",
                                       (char *)place,  pid,  kind, (char *)line->text};
    snprintf(pid, sizeof pid, "%ld", (long)program);
    memcpy(argv + 8, line->option, line->options * sizeof *argv);
    if (leave_caller(locked, names) < 0) {
        _exit(1);
    }
    execv(python, argv);
    _exit(1);
}

/* Through a process that is gone at once: no caller waits for what it leaves behind. */
static pid_t
start_apart(const char *place, const char *python, const command_line *line, int locked, int names)
{
    pid_t program = getpid(), child = fork();
    if (child == 0) {
        (void)setsid();
        if (fork() == 0) {
            make(place, python, line, program, locked, names);
        }
        _exit(0);
    }
    if (child > 0) {
        (void)waitpid(child, NULL, 0);
    }
    return child;
}

__attribute__((noreturn)) static void
wait_for_all(void)
{
    (void)!chdir("/");
    close_from(0);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    _exit(0);
}

/* The first process of a container is the parent of all that is left behind, and many wait for any
   child. So one is started without the signal at its end, which wait(2) then does not return
   (__WCLONE), and it is the parent of all others (PR_SET_CHILD_SUBREAPER) until they have ended. */
static pid_t
start_unseen(const char *place, const char *python, const command_line *line, int locked, int names)
{
    pid_t program = getpid(), child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (child == 0) {
        (void)setsid();
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        if (fork() == 0) {
            make(place, python, line, program, locked, names);
        }
        wait_for_all();
    }
    return child;
}

const char *
auto_order(const char *place, const char *python, const command_line *line)
{
    if (!options_have_start_files(line)) {
        return "there is no image yet, and none is made without start files";
    }
    if (has_failed(place)) {
        return "no image could be made for this program";
    }
    int locked = lock(place);
    if (locked < 0) {
        return "the image of this program is being made";
    }
    int names = names_seen();
    pid_t child = -1;
    if (names >= 0) {
        child = (getpid() == 1 ? start_unseen : start_apart)(place, python, line, locked, names);
    }
    (void)close(locked);
    if (child < 0) {
        if (names >= 0) {
            (void)close(names);
        }
        return "no image can be made now";
    }
    char seen[48];
    snprintf(seen, sizeof seen, "%ld:%d", (long)getpid(), names);
    (void)setenv(SEEN, seen, 1);
    return "there is no image yet: one is made in the background";
}
