/**
 * Writes the events of a stream as those of the Responses API (platform.openai.com/docs/api-reference/responses-streaming): each
 * with its type and a number of its own, the item whole at its end. The last one, which has the whole answer, is asked for only
 * once the ledger has the outcome; there is no `[DONE]`. Pure.
 */
import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent, AnswerOrigin } from '../../domain/events.ts'
import { toLine } from '../../domain/json.ts'
import type { Task } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { type Identity, KEEP_ALIVE, type Writer } from '../format.ts'
import { type Asked, askedOf } from './asked.ts'
import { toFailure } from './failure.ts'
import { Output } from './output.ts'
import { type Standing, toResponseJson } from './response.ts'

export class ResponsesWriter implements Writer {
  readonly keepAlive = KEEP_ALIVE
  readonly #identity: Identity
  readonly #asked: Asked
  readonly #output: Output
  #origin: AnswerOrigin = {}
  /** The number of the next event. */
  #next = 0
  /** What was written since it was last taken. */
  #text = ''

  constructor(task: Task, identity: Identity) {
    this.#identity = identity
    this.#asked = askedOf(task)
    this.#output = new Output(identity.id, this.#asked, (type, fields) =>
      this.#say(type, typeof fields === 'string' ? fields : toLine(fields).slice(1)),
    )
  }

  take(events: readonly AnswerEvent[]): string {
    for (const event of events) if (event.kind === 'origin') this.#origin = event.origin
    this.#begin()
    for (const event of events) this.#output.take(event)
    return this.#flush()
  }

  tail(receipt: Receipt): string {
    const { done: output, reason } = this.#output
    const isCut = reason === 'length' || reason === 'content_filter'
    this.#sayResponse(isCut ? 'response.incomplete' : 'response.completed', { output, reason, receipt })
    return this.#flush()
  }

  failure(error: GatewayError): string {
    this.#begin()
    this.#sayResponse('response.failed', { output: this.#output.done, error: toFailure(error) })
    return this.#flush()
  }

  #begin(): void {
    if (this.#next > 0) return
    this.#sayResponse('response.created', { output: [] })
    this.#sayResponse('response.in_progress', { output: [] })
  }

  #sayResponse(type: string, standing: Omit<Standing, 'origin'>): void {
    const response = toResponseJson(this.#asked, this.#identity, { ...standing, origin: this.#origin })
    this.#say(type, `"response":${response}}`)
  }

  /** @param rest the fields that follow its type and number, as JSON without the first brace. */
  #say(type: string, rest: string): void {
    this.#text += `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#next++},${rest}\n\n`
  }

  #flush(): string {
    const text = this.#text
    this.#text = ''
    return text
  }
}
