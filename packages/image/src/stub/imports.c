/* Lines that begin with `import` or `from`, wherever they are: good enough to know commands by. A
 * command that gets another one's image is right all the same. */
#include "imports.h"

#include <stdbool.h>
#include <string.h>

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
    return strcspn(at, " \t\r\n.,;#()*\\");
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

void
imports_find(const char *text, char *names, size_t size)
{
    names[0] = 0;
    for (const char *at = text; at != NULL;) {
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
