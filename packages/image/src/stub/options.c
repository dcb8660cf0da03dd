/* Source: CPython 3.14 Python/getopt.c and Python/initconfig.c, config_parse_cmdline. */
#include "options.h"

#include <stdlib.h>
#include <string.h>

static const char with_argument[] = "cmWX";
static const char known[] = "bBdEIOPqRsStuvx";

static void
add(command_line *line, char letter, char *argument)
{
    static char flags[128][3]; /* all known letters are ASCII */
    char *flag = flags[(unsigned char)letter];
    flag[0] = '-';
    flag[1] = letter;
    line->option[line->options++] = flag;
    if (argument != NULL) {
        line->option[line->options++] = argument;
    }
}

/* One argument that begins with a dash: any number of letters, the last of which may have an
   argument of its own. Returns 1 if the program was found in it. */
static int
take(int argc, char **argv, int *at, command_line *line, const char **why)
{
    for (char *letter = argv[*at] + 1; *letter; letter++) {
        if (line->options + 2 > OPTIONS_MAX) {
            *why = "too many options";
            return -1;
        }
        if (strchr(with_argument, *letter) == NULL) {
            if (strchr(known, *letter) == NULL) {
                *why = "an option that the interpreter itself answers";
                return -1;
            }
            add(line, *letter, NULL);
            continue;
        }
        char *argument = letter + 1;
        if (!*argument) {
            if (++*at >= argc) {
                *why = "an option without its argument";
                return -1;
            }
            argument = argv[*at];
        }
        if (*letter == 'c' || *letter == 'm') {
            line->kind = *letter;
            line->text = argument;
            line->rest = *at + 1;
            return 1;
        }
        add(line, *letter, argument);
        return 0;
    }
    return 0;
}

int
options_parse(int argc, char **argv, command_line *line, const char **why)
{
    int at = 1;
    for (; at < argc && argv[at][0] == '-' && argv[at][1]; at++) {
        if (argv[at][1] == '-') {
            *why = "a long option";
            return -1;
        }
        int found = take(argc, argv, &at, line, why);
        if (found) {
            return found < 0 ? -1 : 0;
        }
    }
    line->kind = at < argc && strcmp(argv[at], "-") != 0 ? 'f' : 's';
    line->text = at < argc ? argv[at] : "";
    line->rest = at < argc ? at + 1 : argc;
    if (line->kind == 'f' && !*line->text) {
        *why = "a file without a name";
        return -1;
    }
    return 0;
}
