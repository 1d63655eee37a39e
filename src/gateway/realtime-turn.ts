/** A turn of a realtime session: one request, with the responses to what the client sent. And what the next turn may cost. */
import { CallLog } from '../accounting/call-log.ts'
import type { Meter } from '../accounting/meter.ts'
import { Settlement } from '../accounting/settle.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { type Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import { mintId } from '../domain/id.ts'
import { asObject, asText, type JsonObject } from '../domain/json.ts'
import { chargeBy } from '../domain/price.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { CatalogModel, Key, Target, Team, Upstream } from '../domain/snapshot.ts'
import { toMaxTariff } from '../domain/tariff.ts'
import { addUsage, type ModelUsage, NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Permit, Reservation } from '../limits/limiter.ts'
import type { OpenRow } from '../store/ledger-rows.ts'
import { bytesPerSecond, toResponseUsage, toTranscriptionUsage } from '../upstreams/realtime.ts'
import { toGatewayError } from './delivery.ts'
import type { HandleDeps } from './handle.ts'

/** Tokens of a second of audio, heard and spoken (platform.openai.com/docs/guides/realtime-costs). */
const HEARD_PER_SECOND = 10
const SPOKEN_PER_SECOND = 20
/** Input that a turn reserves beyond the conversation so far, tokens. */
const SPARE_TOKENS = 4_096
const BYTES_PER_TOKEN = 4
const IMAGE_TOKENS = 1_500
const LIKELY_OUTPUT = 1_024

interface Most {
  prompt: number
  completion: number
  nanoUsd: number
}

/** What a session has said so far, and how: estimates rest on it. */
export class Conversation {
  /** Tokens, as last reported or estimated. */
  tokens = 0
  /** Most output tokens of a response. */
  maxOutput: number
  transcriber: string | null = null
  /** Whether it only transcribes, and has no responses. */
  isTranscription = false
  #heardRate = bytesPerSecond(null)
  #spokenRate = bytesPerSecond(null)

  constructor(readonly target: Target) {
    this.maxOutput = target.maxOutputLength
  }

  /** The settings in force, as the upstream tells them. */
  take(session: JsonObject, type: string): void {
    const audio = asObject(session.audio) ?? {}
    const input = asObject(audio.input) ?? {}
    const output = asObject(audio.output) ?? {}
    this.isTranscription = session.type === 'transcription' || type.startsWith('transcription_')
    this.#heardRate = bytesPerSecond(input.format ?? session.input_audio_format)
    this.#spokenRate = bytesPerSecond(output.format ?? session.output_audio_format)
    const transcription = asObject(input.transcription) ?? asObject(session.input_audio_transcription)
    this.transcriber = asText(transcription?.model) || null
    this.maxOutput = this.toMaxOutput(session.max_output_tokens ?? session.max_response_output_tokens)
    const instructions = asText(session.instructions).length + JSON.stringify(session.tools ?? []).length
    this.tokens = Math.max(this.tokens, Math.ceil(instructions / BYTES_PER_TOKEN))
  }

  toMaxOutput(most: unknown): number {
    const { maxOutputLength } = this.target
    return typeof most === 'number' && most > 0 ? Math.min(most, maxOutputLength) : maxOutputLength
  }

  /** Of what a client sends. */
  tokensOf(event: JsonObject): number {
    if (event.type === 'input_audio_buffer.commit') return 0
    let heard = 0
    const text = JSON.stringify(event, (name, value: unknown) => {
      if (typeof value !== 'string' || (name !== 'audio' && name !== 'image_url')) return value
      heard += name === 'audio' ? (toBytes(value) / this.#heardRate) * HEARD_PER_SECOND : IMAGE_TOKENS
      return ''
    })
    return Math.ceil(heard + (event.type === 'input_audio_buffer.append' ? 0 : text.length / BYTES_PER_TOKEN))
  }

  /** Most tokens and cost of the next response. */
  most(): Most {
    const { target } = this
    const prompt = Math.min(target.contextLength, this.tokens + SPARE_TOKENS)
    const completion = Math.min(this.maxOutput, target.maxOutputLength)
    const usage = { ...NO_USAGE, prompt, completion, audioPrompt: prompt, audioCompletion: completion }
    return { prompt, completion, nanoUsd: mostOf(target, usage) }
  }

  estimate(spokenBytes: number, writtenBytes: number): Usage {
    const audioCompletion = Math.ceil((spokenBytes / this.#spokenRate) * SPOKEN_PER_SECOND)
    const completion = audioCompletion + Math.ceil(writtenBytes / BYTES_PER_TOKEN)
    const prompt = Math.min(this.tokens, this.target.contextLength)
    return { ...NO_USAGE, prompt, completion, audioCompletion, countedBy: 'text' }
  }
}

interface Beginning {
  key: Key
  team: Team | null
  model: CatalogModel
  /** With the credential in use; null if there is one at most. */
  used: Upstream | null
  signal: EndSignal
  conversation: Conversation
}

/** Limited and recorded. An error holds nothing. */
export async function beginTurn(
  deps: HandleDeps,
  { key, team, model, used, signal, conversation }: Beginning,
): Promise<Decision<Turn>> {
  const { limiter, ledger, counter, disconnectedCalls, now, monotonicMs, instance, load, refusals, onFinished } = deps
  const { target } = conversation
  if (load.isDraining) return new GatewayError('stopped', 'The server is restarting. Connect again.')
  const createdMs = now()
  const id = mintId(createdMs)
  const moment = { monotonicMs: monotonicMs(), wallMs: createdMs }
  const refuse = (error: GatewayError) => {
    refusals.note(error.kind, key, now())
    return error
  }
  const entered = await limiter.enter(id, key, team, moment.monotonicMs)
  if (entered instanceof GatewayError) return refuse(entered)
  const most = conversation.most()
  const tokens = likelyOf(most)
  const isBudgeted = Boolean(key.budget || team?.budget)
  const reservation = await entered.admit({ tokens, nanoUsd: isBudgeted ? most.nanoUsd : 0 }, moment)
  if (reservation instanceof GatewayError) {
    await entered.refuse(reservation, moment.monotonicMs)
    return refuse(reservation)
  }
  const permit = await limiter.permit(target.upstream, tokens, moment.monotonicMs)
  if (permit instanceof UpstreamError) {
    reservation.cancel()
    return toGatewayError(permit)
  }
  const reserve = {
    reservedPromptTokens: most.prompt,
    reservedCompletionTokens: most.completion,
    reservedNanoUsd: most.nanoUsd,
  }
  const row: OpenRow = {
    ...{ id, instance, keyId: key.id, teamId: key.teamId, model: model.facts.id },
    ...{ endpoint: 'realtime', lane: 'native', stream: 1, createdMs, user: null },
    ...{ upstream: target.upstream.id, upstreamModel: target.upstreamModel, priceId: target.priceId, ...reserve },
  }
  try {
    await ledger.open(row)
  } catch (error) {
    permit.leave(0)
    reservation.cancel()
    return toGatewayError(error)
  }
  const body: CanonicalRequest = { model: model.facts.id, messages: [], stream: true, max_tokens: most.completion }
  const calls = new CallLog({
    ...{ ledger, row, first: target, reservation, counter, key, signal, disconnectedCalls, now, monotonicMs },
    ...{ outputCap: null, isUncapped: false },
  })
  const call = await calls.begin({ target, used, body, passthrough: null, reason: 'first', signal: NEVER }, reserve)
  if (target.upstream.credentials.length > 1) call.meter.credential = (used ?? target.upstream).credentialNumber
  const settlement = new Settlement({
    ...{ ledger, counter, calls, reservation, readAtMs: moment.monotonicMs, monotonicMs, trace: null, onFinished },
  })
  return new Turn(conversation, { settlement, meter: call.meter, permit, reservation, isBudgeted }, most)
}

interface TurnParts {
  settlement: Settlement
  meter: Meter
  permit: Permit
  reservation: Reservation
  isBudgeted: boolean
}

export class Turn {
  /** Responses that the client asked for, and those under way. */
  asked = 0
  running = 0
  readonly #usage: Usage = { ...NO_USAGE }
  readonly #others: ModelUsage[] = []
  /** Of the responses under way, for an estimate if they break off. */
  #spokenBytes = 0
  #writtenBytes = 0
  /** For how many responses there is a reservation. */
  #responses = 1

  /** @param reserved of each response. */
  constructor(
    private readonly conversation: Conversation,
    private readonly parts: TurnParts,
    private reserved: Most,
  ) {}

  get isBusy(): boolean {
    return this.asked + this.running > 0
  }

  /** Whether what is said so far, and one more response if one is asked for, are reserved. */
  covers(isAsked: boolean): boolean {
    const { conversation, reserved } = this
    if (conversation.tokens > reserved.prompt) return false
    return !isAsked || (conversation.maxOutput <= reserved.completion && this.asked + this.running < this.#responses)
  }

  /** @param more responses. */
  async raise(more: number): Promise<GatewayError | null> {
    const { conversation, parts } = this
    const most = conversation.most()
    const responses = Math.max(this.#responses, this.asked + this.running + more)
    const tokens = this.#usage.prompt + likelyOf(most) * responses
    const nanoUsd = parts.isBudgeted ? mostOf(conversation.target, this.#usage) + most.nanoUsd * responses : 0
    const refused = await parts.reservation.raise({ tokens, nanoUsd, isMore: true })
    if (refused) return refused
    this.reserved = most
    this.#responses = responses
    return null
  }

  spoke(base64: string): void {
    this.#began()
    this.#spokenBytes += toBytes(base64)
  }

  wrote(text: string): void {
    this.#began()
    this.#writtenBytes += text.length
  }

  #began(): void {
    this.parts.settlement.firstToken()
    this.parts.meter.take(CONTENT)
  }

  /** A response has ended. @param used null if the upstream doesn't report it. */
  responded(used: JsonObject | null): void {
    this.running = Math.max(0, this.running - 1)
    this.#responses = Math.max(0, this.#responses - 1)
    if (used || this.#spokenBytes + this.#writtenBytes > 0) {
      const usage = used ? toResponseUsage(used) : this.conversation.estimate(this.#spokenBytes, this.#writtenBytes)
      addUsage(this.#usage, usage)
      this.conversation.tokens = usage.prompt + usage.completion
    }
    this.#spokenBytes = 0
    this.#writtenBytes = 0
  }

  transcribed(used: JsonObject): void {
    const model = this.conversation.transcriber ?? 'transcription'
    this.#others.push({ model, usage: toTranscriptionUsage(used) })
  }

  /** @param code null if it came to its end. Throws `ledger_unavailable`. */
  async settle(code: string | null): Promise<void> {
    const { meter, permit, settlement } = this.parts
    const isCut = code !== null && this.isBusy
    if (isCut) addUsage(this.#usage, this.conversation.estimate(this.#spokenBytes, this.#writtenBytes))
    meter.take([{ kind: 'usage', usage: this.#usage, others: this.#others }])
    meter.end(isCut ? 'cut' : 'ok')
    permit.leave(this.#usage.prompt + this.#usage.completion)
    await settlement.settle({
      status: isCut ? 'cut' : 'ok',
      httpStatus: isCut && code === 'client_closed' ? 499 : 200,
      errorCode: isCut ? code : null,
    })
  }
}

/** Settled by its end, also if the client has left. */
const NEVER: EndSignal = new AbortController().signal

const CONTENT = [{ kind: 'raw', name: null, data: '', origin: null, isContent: true, isTail: false }] as const

const toBytes = (base64: string) => Math.floor((base64.length * 3) / 4)

const likelyOf = ({ prompt, completion }: Most): number => prompt + Math.min(completion, LIKELY_OUTPUT)

const mostOf = ({ pricing }: Target, usage: Usage): number => {
  const tariff = toMaxTariff(pricing, usage.prompt)
  return tariff ? chargeBy(tariff, usage) : 0
}
