/**
 * Requests as CSV, streamed page by page from the report thread, so that its size affects neither memory nor other
 * requests.
 */
import { toCsvHeadings } from '../documents/request.ts'
import { toDay } from '../domain/time.ts'
import type { Asker, CsvPage, WantedPage } from './deps.ts'
import { AdminError } from './errors.ts'

/** Rows per page: tens of milliseconds on the thread. */
const PAGE_ROWS = 4_000
export const MAX_CSV_ROWS = 1_000_000
/** Concurrent exports, per user or token and in total. */
const MAX = { each: 2, all: 8 }

export interface CsvExport {
  asker: Asker
  /** `limit`: total number of rows. */
  wanted: WantedPage
  nowMs: number
  read(asker: Asker, wanted: WantedPage): Promise<CsvPage>
  /** Checked before each page. */
  isLetIn(): Promise<boolean>
  /** Disables the idle timeout of its connection, or enables it again. */
  keepOpen(isKept: boolean): void
}

export function createCsvExports() {
  const running = new Map<string, number>()

  /**
   * Waits for the first page, so that a refusal gets its own status. Throws `too_many_exports`, and what `read` throws.
   */
  return async ({ asker, wanted, nowMs, read, isLetIn, keepOpen }: CsvExport): Promise<Response> => {
    const mine = running.get(asker.id) ?? 0
    const all = [...running.values()].reduce((sum, one) => sum + one, 0)
    if (mine >= MAX.each || all >= MAX.all)
      throw new AdminError(429, 'too_many_exports', 'Too many exports are running. Wait for one to finish.')
    running.set(asker.id, mine + 1)
    const leave = () => {
      const left = (running.get(asker.id) ?? 1) - 1
      if (left === 0) running.delete(asker.id)
      else running.set(asker.id, left)
    }
    const pages = toPages(wanted, (page) => read(asker, page), isLetIn)
    try {
      const first = await pages.next()
      return toResponse(`${toCsvHeadings()}${first.value ?? ''}`, pages, leave, keepOpen, nowMs)
    } catch (error) {
      leave()
      throw error
    }
  }
}

async function* toPages(
  { limit, ...wanted }: WantedPage,
  read: (page: WantedPage) => Promise<CsvPage>,
  isLetIn: () => Promise<boolean>,
): AsyncGenerator<string, void> {
  let { before } = wanted
  for (let left = limit; ; ) {
    const page = await read({
      ...wanted,
      ...(before === undefined ? {} : { before }),
      limit: Math.min(left, PAGE_ROWS),
    })
    left -= page.rows
    yield page.text
    if (page.next === null || left === 0) return
    before = page.next
    if (!(await isLetIn())) throw new AdminError(401, 'signed_out', 'Sign in first.')
  }
}

function toResponse(
  first: string,
  rest: AsyncGenerator<string, void>,
  leave: () => void,
  keepOpen: CsvExport['keepOpen'],
  nowMs: number,
): Response {
  const encoder = new TextEncoder()
  let text: string | null = first
  const end = () => {
    leave()
    leave = () => {}
  }
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        // Pages without a match send nothing, so only a client that doesn't read counts as idle.
        keepOpen(true)
        try {
          text ??= (await rest.next()).value ?? null
          if (text === null) {
            end()
            return controller.close()
          }
          controller.enqueue(encoder.encode(text))
          text = null
        } catch (error) {
          end()
          // Breaks the transfer, so that a partial file doesn't look complete.
          controller.error(error)
        } finally {
          keepOpen(false)
        }
      },
      async cancel() {
        end()
        await rest.return()
      },
    },
    { highWaterMark: 1 },
  )
  return new Response(stream, {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="tollgate-requests-${toDay(nowMs)}.csv"`,
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    },
  })
}
