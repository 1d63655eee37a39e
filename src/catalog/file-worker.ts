/** The thread of `file-thread.ts`, since a large or malicious file takes seconds. */
import { messageOf } from '../domain/error.ts'
import { ServiceError, type ServiceFailure } from '../domain/service-error.ts'
import type { ToExport } from './change.ts'
import { type FactsFile, parseFacts } from './facts-file.ts'
import { type Exported, type ParsedCatalog, type ParseOptions, parseCatalog, toExport } from './file.ts'

declare const self: Worker

export interface FactsText {
  text: string
  /** Shown in messages. */
  name: string
  providers: readonly string[]
}

export type FileRequest =
  | { kind: 'parse'; text: string; options: ParseOptions }
  | { kind: 'export'; of: ToExport }
  | ({ kind: 'facts' } & FactsText)

export type FileReply =
  | { kind: 'parsed'; parsed: ParsedCatalog }
  | { kind: 'exported'; exported: Exported }
  | { kind: 'facts'; facts: FactsFile }
  | { kind: 'refused'; failure: ServiceFailure; message: string }
  | { kind: 'failed'; error: string }

self.onmessage = async (event: MessageEvent<FileRequest>) => {
  self.postMessage(await reply(event.data))
}
self.postMessage('ready')

async function reply(request: FileRequest): Promise<FileReply> {
  try {
    if (request.kind === 'export') return { kind: 'exported', exported: await toExport(request.of) }
    if (request.kind === 'facts') return { kind: 'facts', facts: toOnly(request) }
    return { kind: 'parsed', parsed: await parseCatalog(request.text, request.options) }
  } catch (error) {
    if (!(error instanceof ServiceError)) return { kind: 'failed', error: messageOf(error) }
    return { kind: 'refused', ...toFew(error) }
  }
}

function toOnly({ text, name, providers }: FactsText): FactsFile {
  const { known, ...counts } = parseFacts(text, name)
  const wanted = Object.entries(known).filter(([provider]) => providers.includes(provider))
  return { known: Object.fromEntries(wanted), ...counts }
}

const MAX_PROBLEMS = 100

function toFew({ failure, message }: ServiceError): { failure: ServiceFailure; message: string } {
  if (failure.kind !== 'catalog_invalid') return { failure, message }
  const more = failure.problems.length - MAX_PROBLEMS
  const [title = '', ...lines] = message.split('\n')
  const told = more > 0 ? [...lines.slice(0, MAX_PROBLEMS), `and ${more} more.`] : lines
  const problems = failure.problems.slice(0, MAX_PROBLEMS)
  return { failure: { ...failure, problems }, message: [title, ...told].join('\n') }
}
