/**
 * Checks responses of the Responses API: schemas, and a stream's numbers, order, and IDs. Throws, or returns the
 * client's result.
 */
import { Value } from '@sinclair/typebox/value'
import { EVENTS, ResponseObject } from './responses-schema.ts'

export type Json = Record<string, unknown>

export interface ResponseEvent extends Json {
  type: string
}

export interface Options {
  /** Item types outside the specification, whose content isn't checked. */
  beyond?: readonly string[]
}

export interface ResponseReport {
  events: ResponseEvent[]
  response: Json
  heartbeats: number
}

const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  local_shell_call: 'lsh',
  image_generation_call: 'ig',
}

const ENDS = ['response.completed', 'response.incomplete', 'response.failed']

function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`the stream is wrong: ${what}`)
}

/** Checks a whole answer. */
export function checkResponse(response: Json, { beyond = [] }: Options = {}): Json {
  const seen = withoutBeyond(response, beyond)
  const [wrong] = Value.Errors(ResponseObject, seen)
  if (wrong) throw new Error(`the response is wrong at ${wrong.path}: ${wrong.message}`)
  for (const [index, item] of toList(response.output).entries()) checkId(item, index, response)
  return response
}

export function checkResponseStream(body: string, options: Options = {}): ResponseReport {
  const { events, heartbeats } = readEvents(body)
  events.forEach((event, index) => {
    must(event.sequence_number === index, `event ${index} has the number ${event.sequence_number}`)
    checkEvent(event, options)
  })
  must(events[0]?.type === 'response.created', `it begins with ${events[0]?.type}`)
  must(events[1]?.type === 'response.in_progress', `its second event is ${events[1]?.type}`)
  const last = events.at(-1)
  must(last !== undefined && ENDS.includes(last.type), `it ends with ${last?.type}`)
  const items = new Items()
  for (const event of events.slice(2, -1)) items.take(event)
  const response = checkResponse(last.response as Json, options)
  must(`response.${response.status}` === last.type, `${last.type} has the status ${response.status}`)
  must(last.type === 'response.failed' || !items.isOpen, 'it ends within an item')
  must(Bun.deepEquals(response.output, items.done), 'its last event has another output than its items')
  must((response.error === null) === (last.type !== 'response.failed'), 'only a failure has an error')
  must((response.usage === null) === (last.type === 'response.failed'), 'an answer has its usage')
  return { events, response, heartbeats }
}

/** Each frame is a named event with one line of JSON; comments come between. */
function readEvents(body: string): { events: ResponseEvent[]; heartbeats: number } {
  must(!body.includes('\r'), 'it has carriage returns')
  must(body.endsWith('\n\n'), 'it ends within a frame')
  let heartbeats = 0
  const events = body.split('\n\n').flatMap((frame): ResponseEvent[] => {
    if (frame === '') return []
    if (frame === ': keep-alive') {
      heartbeats += 1
      return []
    }
    const [, name, data] = /^event: (.+)\ndata: (\{.*\})$/.exec(frame) ?? []
    must(name !== undefined && data !== undefined, `this is no frame: ${frame.slice(0, 100)}`)
    const event = JSON.parse(data) as ResponseEvent
    must(event.type === name, `the event ${name} has the type ${event.type}`)
    return [event]
  })
  return { events, heartbeats }
}

function checkEvent(event: ResponseEvent, { beyond = [] }: Options): void {
  if (/^response\.custom_tool_call_input\.(delta|done)$/.test(event.type) && beyond.includes('custom_tool_call')) return
  const schema = EVENTS.get(event.type)
  must(schema !== undefined, `nobody knows the event ${event.type}`)
  const item = event.item as Json | undefined
  if (item && beyond.includes(String(item.type))) return
  const seen = event.response ? { ...event, response: withoutBeyond(event.response as Json, beyond) } : event
  const [wrong] = Value.Errors(schema, seen)
  must(
    wrong === undefined,
    `${event.type}, at ${wrong?.path}: ${wrong?.message}: ${JSON.stringify(event).slice(0, 300)}`,
  )
}

function withoutBeyond(response: Json, beyond: readonly string[]): Json {
  const known = (each: Json) => !beyond.includes(String(each.type))
  const tools = toList(response.tools).filter(({ type }) => beyond.length === 0 || type === 'function')
  return { ...response, output: toList(response.output).filter(known), tools }
}

const toList = (value: unknown) => value as Json[]

function checkId(item: Json, index: number, response: Json): void {
  const id = String(response.id).replace(/^resp_/, '')
  const own = `${PREFIXES[String(item.type)]}_${id}_${index}`
  must(item.id === own, `item ${index} is called ${item.id}, and not ${own}`)
}

/** One item is open at a time, and its end repeats its pieces. */
class Items {
  readonly done: Json[] = []
  #item: Json | null = null
  #part: Json | null = null
  #parts: Json[] = []
  #said = ''

  get isOpen(): boolean {
    return this.#item !== null
  }

  take(event: ResponseEvent): void {
    const { type } = event
    must(!type.startsWith('response.') || !ENDS.includes(type), `${type} in the middle`)
    must(
      event.output_index === this.done.length,
      `${type} of item ${event.output_index}, while ${this.done.length} is due`,
    )
    if (type === 'response.output_item.added') {
      must(this.#item === null, 'two items are open')
      this.#item = event.item as Json
      this.#parts = []
      return
    }
    const item = this.#item
    must(item !== null, `${type} outside of an item`)
    if (type === 'response.output_item.done') this.#end(item, event.item as Json)
    else {
      must(event.item_id === item.id, `${type} of ${event.item_id} within ${item.id}`)
      this.#takePiece(event)
    }
  }

  #takePiece(event: ResponseEvent): void {
    const { type } = event
    const [, what] = /\.([a-z_]+)$/.exec(type) ?? []
    if (/part\.added$/.test(type)) {
      must(this.#part === null, 'two parts are open')
      must((event.content_index ?? event.summary_index) === this.#parts.length, `a part at ${event.content_index}`)
      this.#part = event.part as Json
      this.#said = ''
    } else if (/part\.done$/.test(type)) {
      must(this.#part !== null, 'a part ends that has not begun')
      this.#parts.push(event.part as Json)
      this.#part = null
      this.#said = ''
    } else if (what === 'delta') {
      must(event.delta !== '', `${type} says nothing`)
      must(this.#part !== null || /arguments|input/.test(type), `${type} outside of a part`)
      this.#said += event.delta
    } else if (what === 'done') {
      const whole = event.text ?? event.refusal ?? event.arguments ?? event.input
      must(whole === this.#said, `${type} has ${whole}, and its pieces ${this.#said}`)
    }
  }

  #end(item: Json, whole: Json): void {
    must(this.#part === null, 'an item ends within a part')
    must(whole.id === item.id && whole.type === item.type, `${item.id} ends as ${whole.id}`)
    const parts = whole.content ?? whole.summary
    must(parts === undefined || Bun.deepEquals(parts, this.#parts), `${item.id} has other parts than were said`)
    if (typeof whole.arguments === 'string') must(whole.arguments === this.#said, `${item.id} has other arguments`)
    must(whole.status !== 'in_progress', `${item.id} is done and in progress`)
    this.done.push(whole)
    this.#item = null
    this.#said = ''
  }
}
