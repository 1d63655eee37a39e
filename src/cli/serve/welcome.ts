/** What `serve` prints on start. Its commands can be copied. */

import { join, relative } from 'node:path'
import manifest from '../../../package.json' with { type: 'json' }
import { isReady } from '../../catalog/public.ts'
import type { Environment, Snapshot } from '../../domain/snapshot.ts'
import { isCompiled, version } from '../io.ts'

interface Served {
  /** Ends in `/v1`. */
  baseUrl: string
  snapshot: Snapshot
  dataFolder: string
  /** Path or name. */
  catalog: string
  /** Null if the dashboard is off. */
  dashboardUrl: string | null
  /** Null if there is an owner, or stdout is no terminal. */
  setupCode: string | null
  /** Sentences. */
  warnings: readonly string[]
  /** Secret of a new key. */
  firstKey: string | null
  /** Requests are not logged. */
  isQuiet: boolean
  /** The model to try first; null = any. */
  model: string | null
  started: Started
}

export function toWelcome(served: Served): string {
  const { baseUrl, dataFolder, catalog, dashboardUrl, setupCode, firstKey, isQuiet, started } = served
  const data = toDataOption(dataFolder, started)
  const command = (words: string) => `${toInvocation(started)} ${words}${data}`
  const keys = new Set([...served.snapshot.secrets.values()].map(({ key }) => key.id)).size
  const lines = [
    `Tollgate ${version()} is running at ${baseUrl}`,
    `  data       ${dataFolder}`,
    `  catalog    ${catalog}`,
    ...(dashboardUrl === null ? [] : [`  dashboard  ${dashboardUrl}`]),
    ...(keys > 0 && !firstKey ? [`  keys       ${keys} (create another: ${command('keys create --name NAME')})`] : []),
    ...(isQuiet ? ['  log        warnings and errors (use --log-level info for requests)'] : []),
    ...served.warnings.map((warning) => `  warning    ${warning}`),
    '',
  ]
  if (dashboardUrl !== null && setupCode !== null)
    lines.push(
      `Set up the dashboard (link expires in 15 minutes; new code: ${command('admin code')}):`,
      ...['', `${dashboardUrl}/setup#${setupCode}`, ''],
    )
  if (firstKey) lines.push('Your first API key (shown only once):', '', firstKey, '')
  else if (keys === 0) lines.push(`Create an API key: ${command('keys create --name NAME')}`, '')
  const model = findReady(served.snapshot, served.model)
  if (model === null) lines.push(`No model is ready. See what each upstream needs: ${command('upstreams list')}`, '')
  else {
    const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })
    const headers = `-H "Authorization: Bearer ${firstKey ?? '$TOLLGATE_KEY'}" -H "Content-Type: application/json"`
    lines.push('Try it from another terminal in this folder:', '')
    lines.push(
      command(`ask ${served.model === model ? `--model ${model} ` : ''}Hello`),
      '',
      `curl -N ${baseUrl}/chat/completions ${headers} -d '${body}'`,
      '',
    )
  }
  return `${lines.join('\n')}\n`
}

/** The wanted ready model, else a listed one, else any. */
function findReady({ models }: Snapshot, wanted: string | null): string | null {
  const ready = [...models.values()].filter(({ targets }) => isReady(targets))
  const first = ready.find(({ facts }) => facts.id === wanted) ?? ready.find(({ listed }) => listed) ?? ready[0]
  return first?.facts.id ?? null
}

export interface Started {
  /** The binary itself, or Bun. */
  execPath: string
  /** Of the script; in the binary, inside it. */
  main: string
  cwd: string
  environment: Environment
  /** Full path with links resolved; null if not on the PATH. */
  which(name: string): string | null
}

/** The command that runs this program again. */
export const toSelf = (): string[] => (isCompiled() ? [process.execPath] : [process.execPath, Bun.main])

/** Runs the same version, even after an upgrade has replaced the file. Linux only. */
export const toThisVersion = (): string[] => (isCompiled() ? [`/proc/${process.pid}/exe`] : toSelf())

/** Such as `tollgate`, `./dist/tollgate` or `npx -y bun@1.4.5 src/main.ts`. */
export function toInvocation(started: Started): string {
  const { execPath, main, environment, which } = started
  if (isCompiled(main)) return which('tollgate') === execPath ? 'tollgate' : toCommand(execPath, started)
  const script = toWord(main, started)
  // npx's PATH entries are gone when it exits.
  const isNpx = environment.npm_config_user_agent?.startsWith('npm/') || execPath.includes('/_npx/')
  if (isNpx) return `npx -y ${manifest.packageManager} ${script}`
  return `${which('bun') === execPath ? 'bun' : toCommand(execPath, started)} ${script}`
}

/** ` --data FOLDER`, or '' if it is the default in this folder. */
export const toDataOption = (dataFolder: string, started: Started) =>
  dataFolder === join(typedIn(started), 'tollgate_data') && !started.environment.TOLLGATE_DATA
    ? ''
    : ` --data ${toWord(dataFolder, started)}`

/** A script runner changes to the package's folder. */
const typedIn = ({ cwd, environment }: Started) => environment.INIT_CWD ?? cwd

/** A path quoted for the shell, relative if below the folder. */
function toWord(path: string, started: Started): string {
  const below = relative(typedIn(started), path)
  return quote(below === '' || below.startsWith('..') ? path : below)
}

/** A shell looks up a word without a slash on the PATH. */
function toCommand(path: string, started: Started): string {
  const word = toWord(path, started)
  return word.includes('/') ? word : `./${word}`
}

const quote = (word: string) => (/^[\w./@:+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)
