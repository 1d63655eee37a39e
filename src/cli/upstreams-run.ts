/** `tollgate upstreams start | stop | logs`: the model servers that a running server starts, and what they have written. */
import { readFile } from 'node:fs/promises'
import { codeOf } from '../domain/error.ts'
import { logOf } from '../server/processes.ts'
import { CommandError, usageError } from './command-error.ts'
import { type Context, printJson, toPrintable } from './io.ts'
import { type Drive, driveServer } from './live.ts'

export async function drive(id: string, what: Drive, io: Context): Promise<void> {
  const status = await driveServer(io.dataFolder, id, what)
  const { state, reason } = status
  const name = toPrintable(id)
  const isStart = what === 'start'
  const isDone = !isStart || state === 'ready' || state === 'sleeping'
  if (io.json) printJson(io, { id, ...status })
  else if (isStart ? isDone : state === 'stopped' || state === 'failed') io.stdout(`${name}: ${state}.\n`)
  else if (isDone) io.stdout(`${name}: stopped, and ${state} again for requests that wait.\n`)
  if (isDone) return
  const why = reason === null ? `it is ${state}` : toPrintable(reason)
  throw new CommandError('server_failed', `The model server of ${name} could not be started: ${why}.`)
}

export async function logs(id: string, lines: string, io: Context): Promise<void> {
  const most = Number(lines)
  if (!Number.isInteger(most) || most < 1) throw usageError('--lines is a number from 1 on.')
  // What is no upstream's name could be the path of another file.
  const path = /^[a-z0-9][a-z0-9._-]*$/.test(id) ? logOf(io.dataFolder, id) : null
  const texts = path === null ? [] : await Promise.all([`${path}.1`, path].map(readLog))
  const text = texts.join('')
  if (text === '')
    throw new CommandError(
      'no_log',
      `There is no log of a model server of ${toPrintable(id)}: none was started here yet.`,
    )
  const written = text.trimEnd().split('\n').slice(-most)
  if (io.json) return printJson(io, { id, lines: written })
  io.stdout(`${written.map(toPrintable).join('\n')}\n`)
}

/** '' where there is none. */
async function readLog(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return ''
    throw new CommandError('log_unreadable', `The log ${path} cannot be read (${codeOf(error) || 'unknown reason'}).`)
  }
}
