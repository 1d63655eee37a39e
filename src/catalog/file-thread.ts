/**
 * Catalogues as text, read and written beside a running server: on a thread, which is started on first need and ended when nobody
 * needs it. Whoever asks takes turns with the others. Called by the admin API; commands have a process of their own.
 */
import { ServiceError } from '../domain/service-error.ts'
import { createThread } from '../threads/thread.ts'
import type { ToExport } from './change.ts'
import type { FactsFile } from './facts-file.ts'
import type { Exported, ParsedCatalog, ParseOptions } from './file.ts'
import type { FactsText, FileReply, FileRequest } from './file-worker.ts'

export interface FileThread {
  /** As `parseCatalog`, and `catalog_not_read` where that takes too long. At most 100 problems are told. */
  parse(text: string, options: ParseOptions, owner: string): Promise<ParsedCatalog>
  /** As `toExport`, which may take so long. */
  export(of: ToExport, owner: string, limitMs?: number): Promise<Exported>
  /** As `parseFacts`, of some providers alone. Throws `facts_unusable`, and `catalog_not_read` as above. */
  facts(list: FactsText, owner: string): Promise<FactsFile>
  close(): void
}

export interface FileThreadOptions {
  idleMs?: number
  /** How long one text may take. */
  limitMs?: number
}

const MAX_WAITING = 4

export function createFileThread({ idleMs = 30_000, limitMs: usualMs = 10_000 }: FileThreadOptions = {}): FileThread {
  const thread = createThread<FileRequest, FileReply>('catalog/file-worker', { idleMs })
  const ask = async (request: FileRequest, owner: string, limitMs = usualMs): Promise<FileReply> => {
    const reply = await thread.ask(request, { owner, limitMs, maxWaiting: MAX_WAITING })
    if (reply === 'limit') throw notRead(`it takes longer than ${limitMs / 1_000} s. Make it smaller`)
    if (typeof reply === 'string') throw notRead('others of yours are being read, or the server stops. Try again')
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

const notRead = (why: string) => new ServiceError({ kind: 'catalog_not_read' }, `It was not read: ${why}.`)
