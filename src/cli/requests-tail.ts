/**
 * `tollgate requests tail`: the requests of a running server, each as it finishes. A reader that is slower than they come misses
 * some and is told how many: neither this process nor the server keeps them for it.
 */
import { type Names, toFinishedDocument, toNames } from '../documents/request.ts'
import { toShortId } from '../domain/id.ts'
import type { SettledRow } from '../store/ledger-rows.ts'
import { CommandError } from './command-error.ts'
import { type Context, toPrintable, withStore } from './io.ts'
import { followRequests } from './live.ts'
import { type FilterFlags, toFilter } from './request-filter.ts'
import { toCost, toElapsed, toNote } from './request-rows.ts'

export async function tail(flags: FilterFlags, io: Context): Promise<void> {
  const rows = await withStore(io, { readonly: true }, (store) => store.read())
  let names = toNames(rows)
  const lines = await followRequests(io.dataFolder, toFilter(flags, rows, io.nowMs()))
  io.stderr('Following the requests of the server as they finish. Ctrl-C ends it.\n')
  for await (const line of lines) {
    if ('end' in line) return io.stderr('The server has stopped.\n')
    if ('dropped' in line) {
      if (io.json) io.stdout(`${JSON.stringify(line)}\n`)
      else io.stderr(`${line.dropped} more finished than could be shown in time; requests list has them.\n`)
    } else {
      const { row, reason } = line
      // Whoever was given a key meanwhile has a name, too.
      if (!names.keys.has(row.keyId)) {
        names = toNames(await withStore(io, { readonly: true }, (store) => store.readKeys()))
        if (!names.keys.has(row.keyId)) names = { ...names, keys: new Map(names.keys).set(row.keyId, row.keyId) }
      }
      const text = io.json ? JSON.stringify(toFinishedDocument(row, reason, names)) : toLine(row, reason, names)
      io.stdout(`${text}\n`)
    }
    if (!(await io.stdoutLeft())) return
  }
  throw new CommandError('server_gone', 'The server is gone, without a word. Its log may say why.')
}

/** Such as `12:00:01  3e1da544  dev  acme/large  ok  1.24 s  380+211  $0.0001836`, and what went wrong. */
function toLine(row: SettledRow, reason: string | null, { keys }: Names): string {
  const ended = new Date(row.createdMs + (row.durationMs ?? 0)).toISOString().slice(11, 19)
  const cells = [
    ended,
    toShortId(row.id),
    (keys.get(row.keyId) ?? '').padEnd(12),
    row.model.padEnd(20),
    row.status.padEnd(6),
    toElapsed(row.durationMs ?? 0).padStart(7),
    `${row.promptTokens}+${row.completionTokens}`.padStart(10),
    toCost(row),
    [toNote(row), reason].filter(Boolean).join(': '),
  ]
  return toPrintable(cells.join('  ').trimEnd())
}
