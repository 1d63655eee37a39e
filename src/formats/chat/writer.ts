/**
 * Writes the events of a stream as the frames that a client of chat completions reads, each one line of JSON behind `data: `.
 * The finish frames, the usage frame and `[DONE]` are the tail, which is asked for only once the ledger has the outcome. Pure.
 */
import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent, AnswerOrigin, FinishReason, Logprobs, ToolKind } from '../../domain/events.ts'
import { toLine } from '../../domain/json.ts'
import type { Task } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { toThinkingWish } from '../../upstreams/dialects/thinking.ts'
import { type Identity, KEEP_ALIVE, type Writer } from '../format.ts'
import { RefusedThoughts } from './thoughts.ts'
import { toUsageJson } from './whole.ts'
import type { Delta } from './wire.ts'

const DONE = 'data: [DONE]\n\n'

export class ChatWriter implements Writer {
  readonly keepAlive = KEEP_ALIVE
  readonly #identity: Identity
  readonly #includeUsage: boolean
  /** What stands before and after the choice of a frame: the facts that all frames share. The origin joins them. */
  #head: string
  readonly #foot: string
  /** So many choices have had their role frame, the lower ones always first. */
  #begun = 0
  /** Why each choice ended, by its index. */
  readonly #reasons: FinishReason[] = []
  /** What each tool call is, by choice and index: its arguments are written by it. */
  readonly #kinds = new Map<string, ToolKind>()
  readonly #refused: RefusedThoughts | null

  constructor({ body }: Task, identity: Identity) {
    this.#identity = identity
    this.#includeUsage = body.stream_options?.include_usage === true
    this.#head = toHead(identity, {})
    this.#foot = this.#includeUsage ? '],"usage":null}\n\n' : ']}\n\n'
    this.#refused = toThinkingWish(body).isHidden ? new RefusedThoughts() : null
  }

  take(events: readonly AnswerEvent[]): string {
    let text = ''
    for (const event of this.#refused?.take(events) ?? events) text += this.#write(event)
    return text
  }

  tail(receipt: Receipt): string {
    let text = ''
    this.#reasons.forEach((reason, index) => {
      text += `${this.#begin(index, '')}${this.#head}{"index":${index},"delta":{},"finish_reason":"${reason}"}${this.#foot}`
    })
    if (this.#includeUsage) text += `${this.#head}],"usage":${toUsageJson(receipt)}}\n\n`
    return text + DONE
  }

  failure(error: GatewayError): string {
    return `data: ${toLine(error.toBody())}\n\n`
  }

  #write(event: AnswerEvent): string {
    switch (event.kind) {
      case 'text': {
        const { choice, text, json = toLine(text), logprobs } = event
        if (logprobs) return this.#delta(choice, { content: text }, logprobs)
        // Nearly every frame is one of these.
        return `${this.#begin(choice, '')}${this.#head}{"index":${choice},"delta":{"content":${json}},"finish_reason":null}${this.#foot}`
      }
      case 'reasoning':
        return this.#delta(event.choice, toThought(event), event.logprobs)
      case 'refusal':
        return this.#delta(event.choice, { refusal: event.text }, event.logprobs)
      case 'tool':
        return this.#beginTool(event)
      case 'arguments':
        return this.#delta(event.choice, this.#toArguments(event))
      case 'annotations':
        return this.#delta(event.choice, { annotations: [...event.items] })
      case 'images':
        return this.#delta(event.choice, { images: [...event.items] })
      case 'audio':
        return this.#begin(event.choice, null) + this.#delta(event.choice, { audio: event.audio })
      case 'finish':
        this.#reasons[event.choice] = event.reason
        return ''
      case 'origin':
        this.#head = toHead(this.#identity, event.origin)
        return ''
      case 'working':
      case 'usage':
      case 'mode':
      case 'charged':
      case 'raw':
      case 'embeddings':
      case 'unmet':
      case 'done':
      case 'failure':
        return ''
      default:
        return event satisfies never
    }
  }

  #delta(choice: number, delta: Delta, logprobs?: Logprobs): string {
    return this.#begin(choice, '') + this.#frame(choice, delta, logprobs)
  }

  #frame(choice: number, delta: Delta, logprobs?: Logprobs): string {
    const figures = logprobs ? `,"logprobs":${toLine(logprobs)}` : ''
    return `${this.#head}{"index":${choice},"delta":${toLine(delta)},"finish_reason":null${figures}}${this.#foot}`
  }

  /** The role frames up to a choice. The content of the last one is null where the choice begins with something else. */
  #begin(choice: number, content: '' | null): string {
    let text = ''
    for (; this.#begun <= choice; this.#begun += 1) {
      const silent = this.#begun === choice ? content : ''
      text += this.#frame(this.#begun, { role: 'assistant', content: silent, refusal: null })
    }
    return text
  }

  #beginTool({ choice, index, id, name, type }: AnswerEvent & { kind: 'tool' }): string {
    this.#kinds.set(`${choice}/${index}`, type)
    const begun = this.#begin(choice, null)
    if (type === 'function_call') return begun + this.#delta(choice, { function_call: { name, arguments: '' } })
    const head = { index, id, type }
    const call =
      type === 'custom' ? { ...head, custom: { name, input: '' } } : { ...head, function: { name, arguments: '' } }
    return begun + this.#delta(choice, { tool_calls: [call] })
  }

  #toArguments({ choice, index, text }: AnswerEvent & { kind: 'arguments' }): Delta {
    const kind = this.#kinds.get(`${choice}/${index}`)
    if (kind === 'function_call') return { function_call: { arguments: text } }
    if (kind === 'custom') return { tool_calls: [{ index, custom: { input: text } }] }
    return { tool_calls: [{ index, function: { arguments: text } }] }
  }
}

function toThought({ text, details }: AnswerEvent & { kind: 'reasoning' }): Delta {
  return {
    ...(text === '' ? {} : { reasoning: text, reasoning_content: text }),
    ...(details ? { reasoning_details: [...details] } : {}),
  }
}

/** How every frame begins. */
const toHead = ({ id, created, model }: Identity, origin: AnswerOrigin) =>
  `data: ${toLine({ id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created, model, ...origin }).slice(0, -1)},"choices":[`
