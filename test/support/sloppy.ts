/** Writes any response as a sloppy upstream would; it always has exactly one correct reading. */

export interface SaidCall {
  name: string
  /** JSON text of the arguments. */
  arguments: string
}

export interface Said {
  reasoning: string
  content: string
  calls: readonly SaidCall[]
  finish: 'stop' | 'length' | 'content_filter'
}

export interface Manners {
  lineEnd: '\n' | '\r\n' | '\r'
  /** A comment or blank line between events, or an event line before them. */
  noise: 'none' | 'comments' | 'blank lines' | 'event lines' | 'data lines'
  /** Piece size in UTF-16 units, which may split a character. */
  pieceUnits: number
  role: 'once' | 'always' | 'null' | 'never'
  reasoning: 'reasoning' | 'reasoning_content' | 'both' | 'tags'
  index: 'right' | 'none' | 'zero' | 'from seven' | 'drifting'
  ids: 'once' | 'always'
  finish: 'right' | 'stop' | 'on the last words' | 'twice' | 'empty' | 'never'
  usage: 'never' | 'always' | 'last' | 'with the finish'
  escaped: boolean
  done: boolean
}

export const COUNTS = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 }

type Delta = Record<string, unknown>
interface Step {
  index: number
  delta: Delta
  finish?: string
}

/** One stream, with a piece of each choice in turn. */
export function toTranscript(said: readonly Said[], manners: Manners): Uint8Array {
  const lanes = said.map((each, index) => toSteps(each, index, manners))
  const longest = Math.max(...lanes.map((lane) => lane.length))
  const steps = Array.from({ length: longest }, (_, at) => lanes.flatMap((lane) => lane[at] ?? [])).flat()
  const events = steps.map((step, at) => toEvent(step, at === steps.length - 1, manners))
  if (manners.usage === 'last') events.push(toData({ id: 'x', choices: [], usage: COUNTS }, manners))
  if (manners.done || manners.finish === 'empty' || manners.finish === 'never') events.push('data: [DONE]\n\n')
  return Buffer.from(events.join('').replaceAll('\n', manners.lineEnd))
}

function toSteps({ reasoning, content, calls, finish }: Said, index: number, manners: Manners): Step[] {
  const tags = manners.reasoning === 'tags' && reasoning !== ''
  const text = tags ? `<think>${reasoning}</think>${content}` : content
  const deltas: Delta[] = [
    ...(tags ? [] : inPieces(reasoning, manners).map((piece) => toReasoning(piece, manners))),
    ...inPieces(text, manners).map((piece) => ({ content: piece })),
    ...calls
      .flatMap((call, at) => toCallDeltas(call, `call_${index}_${at}`, at, manners))
      .map((call) => ({ tool_calls: [call] })),
  ]
  const steps = [{}, ...deltas].map((delta, at): Step => ({ index, delta: { ...toRole(at, manners), ...delta } }))
  const last = steps.at(-1)
  const reason = calls.length > 0 && finish === 'stop' && manners.finish !== 'stop' ? 'tool_calls' : finish
  if (manners.finish === 'on the last words' && last) last.finish = reason
  else if (manners.finish === 'twice')
    steps.push({ index, delta: {}, finish: reason }, { index, delta: {}, finish: 'stop' })
  else if (manners.finish !== 'never')
    steps.push({ index, delta: {}, finish: manners.finish === 'empty' ? '' : reason })
  return steps
}

const toRole = (at: number, { role }: Manners): Delta => {
  if (role === 'always' || (role === 'once' && at === 0)) return { role: 'assistant' }
  return role === 'null' ? { role: null } : {}
}

function toReasoning(piece: string, { reasoning }: Manners): Delta {
  if (reasoning === 'both') return { reasoning: piece, reasoning_content: piece }
  return { [reasoning === 'reasoning' ? 'reasoning' : 'reasoning_content']: piece }
}

function toCallDeltas(call: SaidCall, id: string, at: number, manners: Manners): Delta[] {
  const head = { ...toIndex(at, 0, manners), id, type: 'function', function: { name: call.name, arguments: '' } }
  const rest = inPieces(call.arguments, manners).map((piece, order) => ({
    ...toIndex(at, order + 1, manners),
    ...(manners.ids === 'always' ? { id } : {}),
    function: { arguments: piece },
  }))
  return [head, ...rest]
}

function toIndex(at: number, order: number, { index }: Manners): Delta {
  if (index === 'none') return {}
  if (index === 'zero') return { index: 0 }
  if (index === 'from seven') return { index: 7 + 2 * at }
  // A call's head under the previous call's number.
  if (index === 'drifting') return { index: order === 0 ? Math.max(0, at - 1) : at }
  return { index: at }
}

function inPieces(text: string, { pieceUnits }: Manners): string[] {
  return Array.from({ length: Math.ceil(text.length / pieceUnits) }, (_, at) =>
    text.slice(at * pieceUnits, (at + 1) * pieceUnits),
  )
}

function toEvent({ index, delta, finish }: Step, last: boolean, manners: Manners): string {
  const counts = manners.usage === 'always' || (manners.usage === 'with the finish' && last) ? { usage: COUNTS } : {}
  const choices = [{ index, delta, finish_reason: finish ?? (manners.finish === 'empty' ? '' : null) }]
  return toData({ id: 'x', object: 'chat.completion.chunk', choices, ...counts }, manners)
}

function toData(chunk: object, { noise, escaped }: Manners): string {
  const json = escaped ? toAscii(JSON.stringify(chunk)) : JSON.stringify(chunk)
  if (noise === 'comments') return `: ping\n\ndata: ${json}\n\n`
  if (noise === 'blank lines') return `\n\ndata: ${json}\n\n\n`
  if (noise === 'event lines') return `event: message\nid: 1\ndata:${json}\n\n`
  if (noise === 'data lines') return `data: {\ndata: ${json.slice(1)}\n\n`
  return `data: ${json}\n\n`
}

/** As Python's `json` writes it by default. */
const toAscii = (json: string) =>
  json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

export function toWholeAnswer(said: readonly Said[], { finish, reasoning, usage }: Manners): Uint8Array {
  const choices = said.map((each, index) => {
    const tags = reasoning === 'tags' && each.reasoning !== ''
    return {
      index,
      message: {
        role: 'assistant',
        content: tags ? `<think>${each.reasoning}</think>${each.content}` : each.content,
        ...(tags ? {} : { reasoning: each.reasoning }),
        tool_calls: each.calls.map((call, at) => ({ id: `call_${index}_${at}`, type: 'function', function: call })),
      },
      finish_reason: finish === 'empty' || finish === 'never' ? '' : each.finish,
    }
  })
  return Buffer.from(
    JSON.stringify({ object: 'chat.completion', choices, ...(usage === 'never' ? {} : { usage: COUNTS }) }),
  )
}
