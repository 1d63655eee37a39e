/**
 * What `serve` prints once it serves: where, with what, and commands that work when they are copied, from the same folder: by the name or path of
 * the binary, or from a checkout by `bun` or `npx`. Pure.
 */

import { join, relative } from 'node:path'
import manifest from '../../../package.json' with { type: 'json' }
import { isReady } from '../../catalog/public.ts'
import type { Environment, Snapshot } from '../../domain/snapshot.ts'
import { version } from '../io.ts'

interface Served {
  /** Ends in `/v1`. */
  baseUrl: string
  snapshot: Snapshot
  dataFolder: string
  /** Path of the catalogue, or what it is called. */
  catalog: string
  /** Null where no pages are served. */
  dashboardUrl: string | null
  /** By which the first owner signs in there; null where there is one, or nobody is sure to sit before the terminal. */
  setupCode: string | null
  /** In sentences, what whoever has started it should know. */
  warnings: readonly string[]
  /** The secret of a key that was just made. */
  firstKey: string | null
  /** Whether the log keeps requests to itself. */
  isQuiet: boolean
  /** The one to try first; null = any. */
  model: string | null
  started: Started
}

export function toWelcome(served: Served): string {
  const { baseUrl, dataFolder, catalog, dashboardUrl, setupCode, firstKey, isQuiet, started } = served
  const data = toDataOption(dataFolder, started)
  const command = (words: string) => `${toInvocation(started)} ${words}${data}`
  const keys = new Set([...served.snapshot.secrets.values()].map(({ key }) => key.id)).size
  const lines = [
    `Tollgate ${version()} serves ${baseUrl}`,
    `  data       ${dataFolder}`,
    `  catalogue  ${catalog}`,
    ...(dashboardUrl === null ? [] : [`  dashboard  ${dashboardUrl}`]),
    ...(keys > 0 && !firstKey ? [`  keys       ${keys}; another with: ${command('keys create --name NAME')}`] : []),
    ...(isQuiet ? ['  log        warnings and errors; with --log-level info, a line for each request, too'] : []),
    ...served.warnings.map((warning) => `  warning    ${warning}`),
    '',
  ]
  if (dashboardUrl !== null && setupCode !== null)
    lines.push(
      `Set the dashboard up, within 15 minutes (another code: ${command('admin code')}):`,
      ...['', `${dashboardUrl}/setup#${setupCode}`, ''],
    )
  if (firstKey) lines.push('Your first key. Keep it now; it is not shown again:', '', firstKey, '')
  else if (keys === 0) lines.push(`Make a key with: ${command('keys create --name NAME')}`, '')
  const model = findReady(served.snapshot, served.model)
  if (model === null) lines.push('No model is ready yet: the log says what each upstream lacks.', '')
  else {
    const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })
    const headers = `-H "Authorization: Bearer ${firstKey ?? '$TOLLGATE_KEY'}" -H "Content-Type: application/json"`
    lines.push(`Try it: in this folder, in another terminal, or as any client does`, '')
    lines.push(
      command(`ask ${served.model === model ? `--model ${model} ` : ''}Hello`),
      '',
      `curl -N ${baseUrl}/chat/completions ${headers} -d '${body}'`,
      '',
    )
  }
  return `${lines.join('\n')}\n`
}

/** A model that can be asked now, such as lists show if there is one. */
function findReady({ models }: Snapshot, wanted: string | null): string | null {
  const ready = [...models.values()].filter(({ targets }) => isReady(targets))
  const first = ready.find(({ facts }) => facts.id === wanted) ?? ready.find(({ listed }) => listed) ?? ready[0]
  return first?.facts.id ?? null
}

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
