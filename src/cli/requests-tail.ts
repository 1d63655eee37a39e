/**
 * `tollgate requests tail`: the requests of a running server, each as it finishes. A reader that is slower than they come misses
 * some and is told how many: neither this process nor the server keeps them for it.
 */
import type { FinishedDocument } from '../documents/request.ts'
import { toShortId } from '../domain/id.ts'
import { withAdmin } from './admin-client.ts'
import { CommandError } from './command-error.ts'
import { toRefusal } from './control-client.ts'
import { type Context, toPrintable } from './io.ts'
import { type FilterFlags, toFilter } from './request-filter.ts'
import { toCost, toElapsed, toNote } from './request-rows.ts'

/** Only the beginning is waited for: then nothing may happen for hours. */
const BEGIN_MS = 15_000

export function tail(flags: FilterFlags, io: Context): Promise<void> {
  const query = new URLSearchParams(
    Object.entries(toFilter(flags)).map(([name, value]): [string, string] => [name, String(value)]),
  )
  return withAdmin(io, { readonly: true }, async ({ send }) => {
    const silence = new AbortController()
    const timer = setTimeout(() => silence.abort(new DOMException('', 'TimeoutError')), BEGIN_MS)
    const response = await send(`/admin/api/requests/live?${query}`, { signal: silence.signal })
    clearTimeout(timer)
    if (!response.ok || response.body === null) throw toRefusal(await response.json())
    io.stderr('Following the requests of the server as they finish. Ctrl-C ends it.\n')
    for await (const { name, data } of readEvents(response.body)) {
      if (name === 'end') return io.stderr('The server has stopped.\n')
      if (name === 'dropped') {
        if (io.json) io.stdout(`${data}\n`)
        else
          io.stderr(`${JSON.parse(data).dropped} more finished than could be shown in time; requests list has them.\n`)
      } else io.stdout(`${io.json ? data : toLine(JSON.parse(data))}\n`)
      if (!(await io.stdoutLeft())) return
    }
    throw new CommandError('server_gone', 'The server is gone, without a word. Its log may say why.')
  })
}

/** Server-sent events, each with its name and its data, which is one line. Ends where the connection breaks. */
async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<{ name: string; data: string }> {
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const bytes of body) {
      const events = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1]
        if (data !== undefined) yield { name: /^event: (.*)$/m.exec(event)?.[1] ?? 'message', data }
      }
    }
  } catch {
    // The server is gone.
  }
}

/** Such as `12:00:01  3e1da544  dev  acme/large  ok  1.24 s  380+211  $0.0001836`, and what went wrong. */
function toLine(row: FinishedDocument): string {
  const { id, created_ms: createdMs, duration_ms: durationMs, key, key_id: keyId, model, status, reason } = row
  const cells = [
    new Date(createdMs + (durationMs ?? 0)).toISOString().slice(11, 19),
    toShortId(id),
    (key ?? toShortId(keyId)).padEnd(12),
    model.padEnd(20),
    status.padEnd(6),
    toElapsed(durationMs ?? 0).padStart(7),
    `${row.prompt_tokens}+${row.completion_tokens}`.padStart(10),
    toCost(row),
    [toNote(row), reason].filter(Boolean).join(': '),
  ]
  return toPrintable(cells.join('  ').trimEnd())
}
