/**
 * How whoever started this process calls the program again, from the same folder: by the binary's name or path, or from a
 * checkout by `bun` or `npx`. For commands that are printed to be copied. Pure.
 */
import { join, relative } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import type { Environment } from '../domain/snapshot.ts'

export interface Started {
  /** Full path of the executable that runs: the binary itself, or Bun. */
  execPath: string
  /** Full path of the script; in the binary, a path inside it. */
  main: string
  cwd: string
  environment: Environment
  /** Full path, without links, of what a name means on the PATH; null where it means nothing. */
  which(name: string): string | null
}

/** Whether the script is a part of a compiled binary. */
const isCompiled = (main: string) => main.startsWith('/$bunfs/')

/** The words that start this program anew, to be followed by those of a command. */
export const toSelf = (): string[] => (isCompiled(Bun.main) ? [process.execPath] : [process.execPath, Bun.main])

/** Such as `tollgate`, `./dist/tollgate` or `npx -y bun@1.4.5 src/main.ts`. */
export function toInvocation(started: Started): string {
  const { execPath, main, environment, which } = started
  if (isCompiled(main)) return which('tollgate') === execPath ? 'tollgate' : toCommand(execPath, started)
  const script = toWord(main, started)
  // npx leaves these behind; what it has put on the PATH is gone with it.
  const isNpx = environment.npm_config_user_agent?.startsWith('npm/') || execPath.includes('/_npx/')
  if (isNpx) return `npx -y ${manifest.packageManager} ${script}`
  return `${which('bun') === execPath ? 'bun' : toCommand(execPath, started)} ${script}`
}

/** ` --data FOLDER`, with its space; '' where commands in this folder find the data folder by themselves. */
export const toDataOption = (dataFolder: string, started: Started) =>
  dataFolder === join(typedIn(started), 'tollgate_data') && !started.environment.TOLLGATE_DATA
    ? ''
    : ` --data ${toWord(dataFolder, started)}`

/** The folder of whoever typed the command: a script runner goes to that of the package. */
const typedIn = ({ cwd, environment }: Started) => environment.INIT_CWD ?? cwd

/** A path as a word of a shell command: short where it lies below the folder. */
function toWord(path: string, started: Started): string {
  const below = relative(typedIn(started), path)
  return quote(below === '' || below.startsWith('..') ? path : below)
}

/** A shell looks a word without a slash up on the PATH. */
function toCommand(path: string, started: Started): string {
  const word = toWord(path, started)
  return word.includes('/') ? word : `./${word}`
}

const quote = (word: string) => (/^[\w./@:+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)
