/* Lines that begin with `import` or `from`, wherever they are: good enough to know commands by. A
 * command that gets another one's image is right all the same. */
#define _GNU_SOURCE
#include "imports.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES (256 * 1024)

static bool
is_name(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || (unsigned char)c >= 128;
}

static bool
is_there(const char *names, const char *name, size_t length)
{
    for (const char *at = names; at != NULL && *at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length])) {
            return true;
        }
    }
    return false;
}

static void
add(char *names, size_t size, const char *name, size_t length)
{
    size_t used = strlen(names);
    if (length == 0 || used + length + 2 > size || is_there(names, name, length)) {
        return;
    }
    if (used) {
        names[used++] = ',';
    }
    memcpy(names + used, name, length);
    names[used + length] = 0;
}

static size_t
name_length(const char *at)
{
    size_t length = 0;
    while (is_name(at[length])) {
        length++;
    }
    return length;
}

/* What follows `import`: names with commas between them. */
static void
add_list(const char *at, char *names, size_t size)
{
    for (;;) {
        at += strspn(at, " \t");
        size_t length = name_length(at);
        add(names, size, at, length);
        at += strcspn(at, ",\n;#");
        if (*at != ',' || length == 0) {
            return;
        }
        at++;
    }
}

static const char *
after_word(const char *at, const char *word)
{
    size_t length = strlen(word);
    return strncmp(at, word, length) == 0 && (at[length] == ' ' || at[length] == '\t') ? at + length
                                                                                       : NULL;
}

static void
scan(const char *text, char *names, size_t size)
{
    for (const char *at = text; at != NULL && *at;) {
        at += strspn(at, " \t\r\n;");
        const char *rest;
        if ((rest = after_word(at, "import")) != NULL) {
            add_list(rest, names, size);
        }
        else if ((rest = after_word(at, "from")) != NULL) {
            rest += strspn(rest, " \t");
            add(names, size, rest, name_length(rest));
        }
        at = strpbrk(at, "\n;");
    }
}

static void
scan_file(const char *path, char *names, size_t size)
{
    static char text[MAX_BYTES + 1];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (file < 0) {
        return;
    }
    /* Reading takes nothing away from a plain file alone. */
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        ssize_t length = read(file, text, MAX_BYTES);
        text[length < 0 ? 0 : length] = 0;
        scan(text, names, size);
    }
    close(file);
}

void
imports_find(const command_line *line, char *names, size_t size)
{
    names[0] = 0;
    if (line->kind == 'c') {
        scan(line->text, names, size);
    }
    else if (line->kind == 'm') {
        add(names, size, line->text, name_length(line->text));
    }
    else if (line->kind == 'f') {
        scan_file(line->text, names, size);
    }
}
