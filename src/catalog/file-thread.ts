/** Reads and writes catalog text on a thread, with turns between owners. It starts on first use and stops when idle. */
import { ServiceError } from '../domain/service-error.ts'
import { createThread } from '../threads/thread.ts'
import type { ToExport } from './change.ts'
import type { FactsFile } from './facts-file.ts'
import type { Exported, ParsedCatalog, ParseOptions } from './file.ts'
import type { FactsText, FileReply, FileRequest } from './file-worker.ts'

export interface FileThread {
  /** Like `parseCatalog`; throws `catalog_not_read` on timeout. Reports at most 100 problems. */
  parse(text: string, options: ParseOptions, owner: string): Promise<ParsedCatalog>
  /** Like `toExport`; throws `catalog_not_read` as above. */
  export(of: ToExport, owner: string, limitMs?: number): Promise<Exported>
  /** Like `parseFacts`, for some providers only. Throws `facts_unusable`, and `catalog_not_read` as above. */
  facts(list: FactsText, owner: string): Promise<FactsFile>
  close(): void
}

export interface FileThreadOptions {
  idleMs?: number
  /** Time limit per text. */
  limitMs?: number
}

const MAX_WAITING = 4

export function createFileThread({ idleMs = 30_000, limitMs: usualMs = 10_000 }: FileThreadOptions = {}): FileThread {
  const thread = createThread<FileRequest, FileReply>('catalog/file-worker', { idleMs })
  const ask = async (request: FileRequest, owner: string, limitMs = usualMs): Promise<FileReply> => {
    const reply = await thread.ask(request, { owner, limitMs, maxWaiting: MAX_WAITING })
    if (reply === 'limit') throw notRead(`reading took over ${limitMs / 1_000} s. Make it smaller`)
    if (typeof reply === 'string')
      throw notRead('too many of your files are queued, or the server is stopping. Try again')
    if (reply.kind === 'refused') throw new ServiceError(reply.failure, reply.message)
    if (reply.kind === 'failed') throw new Error(reply.error)
    return reply
  }
  return {
    async parse(text, options, owner) {
      const reply = await ask({ kind: 'parse', text, options }, owner)
      if (reply.kind !== 'parsed') throw new Error('the thread has answered another question')
      return reply.parsed
    },
    async export(of, owner, limitMs) {
      const reply = await ask({ kind: 'export', of }, owner, limitMs)
      if (reply.kind !== 'exported') throw new Error('the thread has answered another question')
      return reply.exported
    },
    async facts(list, owner) {
      const reply = await ask({ kind: 'facts', ...list }, owner)
      if (reply.kind !== 'facts') throw new Error('the thread has answered another question')
      return reply.facts
    },
    close: thread.close,
  }
}

const notRead = (why: string) => new ServiceError({ kind: 'catalog_not_read' }, `The file was not read: ${why}.`)
