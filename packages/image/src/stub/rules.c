/* Compares an environment with the rules of an image, without allocating.
 *
 * Leans on the kernel and libc alone: `environ` is an array of "NAME=VALUE" that ends with NULL.
 */

#include "rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char *
value_of(char **environ, const char *name, size_t length)
{
    for (; *environ; environ++) {
        if (strncmp(*environ, name, length) == 0 && (*environ)[length] == '=') {
            return *environ + length + 1;
        }
    }
    return NULL;
}

static bool
is_listed(const char *rules, const char *name, size_t length)
{
    for (const char *rule = rules; *rule; rule += strlen(rule) + 1) {
        if (*rule == '~' && strncmp(rule + 1, name, strlen(rule + 1)) == 0) {
            return true;
        }
        if (*rule == '^' || *rule == '*' || strncmp(rule + 1, name, length) != 0) {
            continue;
        }
        char end = rule[1 + length];
        if ((*rule == '!' && !end) || (*rule == '=' && end == '=')) {
            return true;
        }
    }
    return false;
}

/* Whether a name has a text at its begin, or anywhere, in any case. */
static bool
has_text(const char *name, const char *equals, const char *text, bool anywhere)
{
    size_t length = strlen(text);
    for (; (size_t)(equals - name) >= length; name++) {
        if (strncasecmp(name, text, length) == 0) {
            return true;
        }
        if (!anywhere) {
            return false;
        }
    }
    return false;
}

static const char *
new_variable(const char *rules, const char *text, bool anywhere, char **environ)
{
    for (; *environ; environ++) {
        const char *equals = strchr(*environ, '=');
        if (equals != NULL && has_text(*environ, equals, text, anywhere)
            && !is_listed(rules, *environ, (size_t)(equals - *environ))) {
            return *environ;
        }
    }
    return NULL;
}

const char *
rules_broken(const char *rules, char **environ)
{
    for (const char *rule = rules; *rule; rule += strlen(rule) + 1) {
        const char *name = rule + 1;
        if (*rule == '=') {
            const char *equals = strchr(name, '=');
            const char *value = value_of(environ, name, (size_t)(equals - name));
            if (value == NULL || strcmp(value, equals + 1) != 0) {
                return name;
            }
        }
        else if (*rule == '-' && value_of(environ, name, strlen(name)) != NULL) {
            return name;
        }
        else if (*rule == '^' || *rule == '*') {
            const char *found = new_variable(rules, name, *rule == '*', environ);
            if (found != NULL) {
                return found;
            }
        }
    }
    return NULL;
}
