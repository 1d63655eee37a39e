/** Shell completion scripts. They call `tollgate complete -- WORDS…`, evaluate no input, and fall back to file names. */
import type { Command, Option } from 'commander'
import { usageError } from './command-error.ts'
import { type Context, toExamples } from './io.ts'

export function addCompletions(command: Command, context: Context): void {
  command
    .argument('<shell>', 'bash, zsh, or fish')
    .addHelpText(
      'after',
      toExamples(
        'completions bash > ~/.local/share/bash-completion/completions/tollgate',
        'completions fish > ~/.config/fish/completions/tollgate.fish',
      ),
    )
    .action(async (shell: string) => context.stdout(toScript(shell)))
}

const SHELLS = ['bash', 'zsh', 'fish'] as const

const SCRIPTS: Record<(typeof SHELLS)[number], string> = {
  bash: `_tollgate() {
  local value about
  COMPREPLY=()
  while IFS=$'\\t' read -r value about; do
    COMPREPLY+=("$value")
  done < <(tollgate complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _tollgate tollgate
`,
  zsh: `#compdef tollgate
_tollgate() {
  local line
  local -a found
  while IFS= read -r line; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <(tollgate complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( $#found )); then _describe tollgate found; else _files; fi
}
compdef _tollgate tollgate
`,
  fish: `function __tollgate_complete
  set -l found (tollgate complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c tollgate -f -a '(__tollgate_complete)'
`,
}

const OR = new Intl.ListFormat('en-US', { type: 'disjunction' })

function toScript(shell: string): string {
  const known = SHELLS.find((one) => one === shell)
  if (known === undefined) throw usageError(`Unsupported shell '${shell}'. Use ${OR.format(SHELLS)}.`)
  return SCRIPTS[known]
}

/** One per line: word, tab, description. @param words without the program's name. */
export function toCompletions(program: Command, words: readonly string[]): string {
  const typed = words.at(-1) ?? ''
  const { command, isValue } = follow(program, words.slice(0, -1))
  // The shell completes files.
  if (isValue) return ''
  const known = typed.startsWith('-')
    ? optionsOf(command).map(({ long, description }) => [long ?? '', description] as const)
    : command
        .createHelp()
        .visibleCommands(command)
        .map((one) => [one.name(), one.description()] as const)
  const found = known.filter(([word]) => word !== '' && word.startsWith(typed))
  return found.map(([word, about]) => `${word}\t${about}\n`).join('')
}

function follow(program: Command, words: readonly string[]): { command: Command; isValue: boolean } {
  let command = program
  let isValue = false
  for (const word of words) {
    if (isValue) isValue = false
    else if (word.startsWith('-')) isValue = takesValue(optionsOf(command), word)
    else command = command.commands.find((one) => one.name() === word) ?? command
  }
  return { command, isValue }
}

const takesValue = (options: readonly Option[], word: string): boolean =>
  !word.includes('=') &&
  options.some((option) => (option.long === word || option.short === word) && (option.required || option.optional))

/** Own and global options. */
function optionsOf(command: Command): Option[] {
  const help = command.createHelp()
  help.showGlobalOptions = true
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)]
}
