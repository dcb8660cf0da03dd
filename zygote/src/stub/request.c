/* One message there, one back: strings that end with zero bytes, and descriptors. The socket is
 * $XDG_RUNTIME_DIR/pasture/zygote, or /tmp/pasture-UID/zygote; its folder must be this user's
 * alone. docs/internals/zygote.md describes the messages. */
#define _GNU_SOURCE
#include "request.h"

#include "imports.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_MAX_US 250000 /* as long as its queue is full */
#define ANSWER_MAX_S 2
#define MAX_BYTES 32768
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static bool
belongs_to_us(const char *folder)
{
    struct stat status;
    return lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid()
           && (status.st_mode & 077) == 0;
}

static const char *
find_socket(struct sockaddr_un *address)
{
    char folder[sizeof address->sun_path];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int length;
    if (runtime != NULL && runtime[0] == '/') {
        length = snprintf(folder, sizeof folder, "%s/pasture", runtime);
    }
    else {
        length = snprintf(folder, sizeof folder, "/tmp/pasture-%u", (unsigned)geteuid());
    }
    if (length < 0 || (size_t)length + sizeof "/zygote" > sizeof folder) {
        return "the path of the socket is too long";
    }
    if (!belongs_to_us(folder)) {
        return "no zygote is there";
    }
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, folder, (size_t)length);
    memcpy(address->sun_path + length, "/zygote", sizeof "/zygote");
    return NULL;
}

static int
connected(const char **why)
{
    struct sockaddr_un address = {0};
    if ((*why = find_socket(&address)) != NULL) {
        return -1;
    }
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct timeval connect_max = {.tv_usec = CONNECT_MAX_US};
    struct timeval answer_max = {.tv_sec = ANSWER_MAX_S};
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &connect_max, sizeof connect_max) < 0
        || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &answer_max, sizeof answer_max) < 0
        || connect(s, (struct sockaddr *)&address, sizeof address) < 0) {
        *why = errno == EAGAIN ? "the zygote does not answer" : "no zygote is there";
        if (s >= 0) {
            (void)close(s);
        }
        return -1;
    }
    return s;
}

typedef struct {
    char data[MAX_BYTES];
    size_t length;
    bool is_full;
} text;

static void
put(text *t, const char *word)
{
    size_t length = strlen(word) + 1;
    if (t->is_full || length > sizeof t->data - t->length) {
        t->is_full = true;
        return;
    }
    memcpy(t->data + t->length, word, length);
    t->length += length;
}

static bool
write_request(text *t, const char *python, const command_line *line)
{
    static char names[8192];
    const char *zygote = getenv("PASTURE_ZYGOTE");
    imports_find(line, names, sizeof names);
    put(t, "run 2");
    put(t, zygote != NULL ? zygote : "");
    put(t, python);
    put(t, names);
    for (size_t i = 0; i < line->options; i++) {
        put(t, line->option[i]);
    }
    return !t->is_full;
}

static void
take_files(struct msghdr *head, answer *a)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c != NULL; c = CMSG_NXTHDR(head, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count && a->files < REQUEST_MAX_FILES; i++) {
                memcpy(&a->file[a->files++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            }
        }
    }
}

static const char *
receive(int s, answer *a)
{
    union {
        char data[CMSG_SPACE(REQUEST_MAX_FILES * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = a->text, .iov_len = sizeof a->text - 1};
    struct msghdr head = {.msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof control};
    ssize_t length = recvmsg(s, &head, MSG_CMSG_CLOEXEC);
    if (length <= 0) {
        return "the zygote does not answer";
    }
    a->text[length] = 0;
    take_files(&head, a);
    if (head.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
        return "the zygote's answer is too long";
    }
    return NULL;
}

/* The contents that are mapped from them cannot change any more. */
static bool
are_sealed(const answer *a)
{
    for (size_t i = 0; i < a->files; i++) {
        int seals = fcntl(a->file[i], F_GET_SEALS);
        if (seals < 0 || (seals & SEALS) != SEALS) {
            return false;
        }
    }
    return true;
}

static const char *
judge(answer *a)
{
    static const char served[] = "serve ";
    if (strncmp(a->text, served, sizeof served - 1) != 0) {
        static const char refused[] = "exec ";
        bool is_refusal = strncmp(a->text, refused, sizeof refused - 1) == 0;
        return is_refusal ? a->text + sizeof refused - 1 : "the zygote's answer makes no sense";
    }
    a->is_served = true;
    memmove(a->text, a->text + sizeof served - 1, strlen(a->text) - sizeof served + 2);
    return a->files >= 2 && are_sealed(a) ? NULL : "the image is not sealed";
}

static void
request_say(answer *a, const char *said, size_t length)
{
    if (a->is_served) {
        (void)send(a->server, said, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)close(a->server);
        a->is_served = false;
    }
}

const char *
request_image(const char *python, const command_line *line, answer *a)
{
    static text t;
    const char *why;
    int s = connected(&why);
    if (s < 0) {
        return why;
    }
    why = peer_differs(s);
    if (why == NULL && !write_request(&t, python, line)) {
        why = "the command line is too long";
    }
    if (why == NULL && send(s, t.data, t.length, MSG_NOSIGNAL) != (ssize_t)t.length) {
        why = "the zygote does not answer";
    }
    if (why == NULL) {
        why = receive(s, a);
    }
    if (why == NULL) {
        why = judge(a);
    }
    if (a->is_served) {
        a->server = s;
        return why;
    }
    (void)close(s);
    return why;
}

void
request_taken(answer *a)
{
    request_say(a, "taken", sizeof "taken" - 1);
}

void
request_left(answer *a, const char *why)
{
    char said[256];
    int length = snprintf(said, sizeof said, "left %s", why);
    size_t most = sizeof said - 1;
    request_say(a, said, (size_t)length < most ? (size_t)length : most);
}
