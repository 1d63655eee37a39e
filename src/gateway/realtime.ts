/**
 * A realtime session: a WebSocket between a client and an upstream. Each turn, from what the client sends until the responses to it
 * have ended, is a request of its own: limited, recorded before it is sent, and settled before its end is passed on.
 */
import type { ServerWebSocket } from 'bun'
import { CallLog } from '../accounting/call-log.ts'
import { Settlement } from '../accounting/settle.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { type Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../domain/json.ts'
import { chargeBy } from '../domain/price.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { CatalogModel, Key, Target, Upstream } from '../domain/snapshot.ts'
import { toMaxTariff } from '../domain/tariff.ts'
import { addUsage, type ModelUsage, NO_USAGE, type Usage } from '../domain/usage.ts'
import { authenticate } from '../keys/token.ts'
import type { Permit } from '../limits/limiter.ts'
import { teamOf, visibleModel } from '../routing/access.ts'
import { order, resolve } from '../routing/route.ts'
import type { OpenRow } from '../store/ledger-rows.ts'
import { toPublic } from '../upstreams/credential-scrubbing.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { bytesPerSecond, connectRealtime, toResponseUsage, toTranscriptionUsage } from '../upstreams/realtime.ts'
import type { AdmissionSlot } from './admission.ts'
import { noneReady } from './calls.ts'
import { toGatewayError } from './delivery.ts'
import type { Authenticated } from './exchange.ts'
import type { HandleDeps } from './handle.ts'

export interface RealtimeData {
  open(client: ServerWebSocket<RealtimeData>): void
  message(client: ServerWebSocket<RealtimeData>, text: string | Buffer): void
  close(): void
}

/** What may wait for a turn to begin or to be settled, or for a slow side, bytes. */
const MAX_WAITING = 16 * 1024 * 1024
const CHECK_MS = 2_000
/** Tokens of a second of audio, heard and spoken (platform.openai.com/docs/guides/realtime-costs). */
const HEARD_PER_SECOND = 10
const SPOKEN_PER_SECOND = 20
/** Input that a turn reserves beyond the conversation so far, tokens. */
const SPARE_TOKENS = 4_096
const BYTES_PER_TOKEN = 4
const IMAGE_TOKENS = 1_500
const LIKELY_OUTPUT = 1_024

/** What clients may send; of these the first group starts a turn. */
const STARTS: ReadonlySet<unknown> = new Set([
  ...['response.create', 'input_audio_buffer.append', 'input_audio_buffer.commit', 'conversation.item.create'],
])
const OTHERS: ReadonlySet<unknown> = new Set([
  ...['session.update', 'transcription_session.update', 'input_audio_buffer.clear', 'output_audio_buffer.clear'],
  ...['conversation.item.retrieve', 'conversation.item.truncate', 'conversation.item.delete', 'response.cancel'],
])

/** Finds a target and connects to it. Throws a GatewayError or an UpstreamError. */
export async function openSession(
  deps: HandleDeps,
  caller: Authenticated,
  query: Readonly<Record<string, string>>,
): Promise<RealtimeSession> {
  if (caller.incoming.headers.upgrade?.toLowerCase() !== 'websocket') throw notAWebSocket()
  const asked = query.model ?? ''
  if (asked === '') throw new GatewayError('invalid_request', 'Name a model: `?model=…`.', { param: 'model' })
  if (query.call_id !== undefined)
    throw new GatewayError('invalid_request', 'Calls by WebRTC or SIP are not supported.', { param: 'call_id' })
  const slot = orThrow(deps.load.enter(caller.key))
  caller.held.use(slot)
  const { snapshot, key, id } = caller
  const { model, targets } = orThrow(resolve(snapshot, key, asked))
  const able = targets.filter(({ upstream }) => dialectOf(upstream).hasRealtime && upstream.baseUrl !== null)
  if (able.length === 0) throw noRealtime(model)
  const health = deps.health.forRequest(key)
  const controller = new AbortController()
  const signal = slot.admit(controller.signal)
  let last: unknown = null
  for (const target of order(
    able,
    key,
    () => id,
    (each) => health.availability(each),
  )) {
    if (!health.enter(target)) continue
    const { each } = target.upstream
    const used = each && health.withCredential(target, each, id, new Set())
    try {
      const upstream = await connectRealtime(target, used ?? target.upstream, `${id}-1`, signal)
      health.report(target, 'ok', used)
      return new RealtimeSession(deps, caller, { slot, controller, signal, model, target, used }, upstream)
    } catch (error) {
      last = error
      health.report(target, error instanceof UpstreamError ? error : 'aborted', used)
      if (!(error instanceof UpstreamError) || error.kind === 'aborted') break
      error.upstream ??= target.upstream.id
    }
  }
  throw last ?? noneReady(health, able)
}

const notAWebSocket = () =>
  new GatewayError('invalid_request', 'The realtime API needs a WebSocket.', {
    ...{ status: 426, code: 'websocket_required', headers: { upgrade: 'websocket' } },
  })

const noRealtime = ({ facts: { id } }: CatalogModel) =>
  new GatewayError(
    'invalid_request',
    `The model \`${id}\` has no realtime API. Use /v1/chat/completions, or a model of an upstream with OpenAI's realtime API.`,
    { code: 'unsupported_endpoint', param: 'model' },
  )

function orThrow<T>(decision: Decision<T>): T {
  if (decision instanceof GatewayError) throw decision
  return decision
}

interface Turn {
  settlement: Settlement
  calls: CallLog
  meter: Awaited<ReturnType<CallLog['begin']>>['meter']
  permit: Permit
  raise(tokens: number, nanoUsd: number): GatewayError | null | Promise<GatewayError | null>
  usage: Usage
  others: ModelUsage[]
  /** Responses that the client asked for, and those under way. */
  asked: number
  running: number
  /** Of the responses under way, for an estimate if they break off. */
  spokenBytes: number
  writtenBytes: number
  /** What is reserved: input and most output of each response, tokens, and of how many. */
  reserved: number
  output: number
  responses: number
}

interface Found {
  slot: AdmissionSlot
  /** Aborts when the client is gone. */
  controller: AbortController
  /** Also when the server stops. */
  signal: EndSignal
  model: CatalogModel
  target: Target
  /** With the credential in use; null if there is one at most. */
  used: Upstream | null
}

export class RealtimeSession implements RealtimeData {
  readonly #deps: HandleDeps
  readonly #caller: Authenticated
  readonly #found: Found
  #key: Key
  readonly #upstream: WebSocket
  #client: ServerWebSocket<RealtimeData> | null = null
  #turn: Turn | null = null
  #beginning: Promise<Decision<Turn>> | null = null
  /** Tokens of the conversation, as last reported or estimated. */
  #context = 0
  #maxOutput: number
  #heardRate = bytesPerSecond(null)
  #spokenRate = bytesPerSecond(null)
  #transcriber: string | null = null
  #held = 0
  #isClosed = false
  readonly #timer: Timer
  readonly #fromClient: InOrder
  readonly #fromUpstream: InOrder

  constructor(deps: HandleDeps, caller: Authenticated, found: Found, upstream: WebSocket) {
    this.#deps = deps
    this.#caller = caller
    this.#key = caller.key
    this.#found = found
    this.#upstream = upstream
    this.#maxOutput = found.target.maxOutputLength
    const take = (bytes: number) => this.#hold(bytes)
    const fail = (error: unknown) => this.#fail(error)
    this.#fromClient = new InOrder((text) => this.#takeFromClient(text), take, fail)
    this.#fromUpstream = new InOrder((text) => this.#takeFromUpstream(text), take, fail)
    // Until the client is there, its events wait.
    this.#fromUpstream.pause()
    upstream.onmessage = ({ data }) => this.#fromUpstream.take(String(data))
    upstream.onerror = () => {}
    upstream.onclose = ({ code, reason }) => {
      void this.#fromUpstream.idle().then(() => this.#close(toCode(code), this.#scrub(reason), 'upstream_failed'))
    }
    this.#timer = setInterval(() => this.#check(), CHECK_MS)
    found.signal.addEventListener('abort', () => this.#check())
  }

  get headers(): Record<string, string> {
    return {
      'x-request-id': toRequestId(this.#caller.id),
      'x-tollgate-upstream': this.#found.target.upstream.id,
    }
  }

  open(client: ServerWebSocket<RealtimeData>): void {
    this.#client = client
    this.#fromUpstream.resume()
  }

  message(_: unknown, text: string | Buffer): void {
    if (typeof text === 'string') this.#fromClient.take(text)
    else this.#refuse(invalid('Send events as text frames of JSON.', null))
  }

  close(): void {
    this.#client = null
    void this.#leave()
  }

  /** The client could not be upgraded. */
  drop(): void {
    void this.#close(1_001, '', null)
  }

  /** A client that has left may be charged for a response: ends it, and reads what it used. */
  async #leave(): Promise<void> {
    this.#found.controller.abort('disconnected')
    const ms = this.#deps.disconnectedCalls.readOnMs(this.#found.target.upstream)
    await this.#beginning
    if (this.#turn !== null && isBusy(this.#turn) && ms > 0 && !this.#isClosed) {
      this.#upstream.send('{"type":"response.cancel"}')
      await Promise.race([this.#ended(), Bun.sleep(ms)])
    }
    await this.#close(1_000, '', 'client_closed')
  }

  async #ended(): Promise<void> {
    while (this.#turn !== null && !this.#isClosed) await Bun.sleep(20)
  }

  /** A revoked key, a removed model, and a drain end a session that no one speaks in. */
  #check(): void {
    if (this.#isClosed) return
    if (this.#deps.load.isDraining && this.#turn === null) void this.#close(1_012, 'The server is restarting.', null)
    else if (this.#found.signal.reason === 'stopped') void this.#close(1_012, 'The server is shutting down.', 'stopped')
    else this.#checkAccess()
  }

  #checkAccess(): void {
    const access = this.#access()
    if (access instanceof GatewayError) void this.#closeWith(access)
  }

  /** The key as it is now: a session outlives changes of its limits, budget, and models. */
  #access(): Decision<Key> {
    const { snapshot } = this.#deps.live
    const { incoming } = this.#caller
    const key = incoming.owner ?? authenticate(snapshot, incoming, this.#deps.now())
    if (key instanceof GatewayError) return key
    this.#key = key
    return visibleModel(snapshot, key, this.#found.model.facts.id) ? key : noRealtime(this.#found.model)
  }

  // ----- from the client

  #takeFromClient(text: string): void | Promise<void> {
    if (this.#isClosed || this.#client === null) return
    const event = asObject(tryJson(text))
    if (event === null) return this.#refuse(invalid('An event is a JSON object with a `type`.', null))
    const eventId = asText(event.event_id) || null
    const isStart = STARTS.has(event.type)
    if (!isStart && !OTHERS.has(event.type))
      return this.#refuse(invalid(`Unknown event type: '${asText(event.type).slice(0, 100)}'.`, eventId))
    const wrong = this.#adapt(event)
    if (wrong) return this.#refuse(invalid(wrong, eventId))
    if (!isStart) return this.#send(event)
    return this.#inTurn(event, eventId)
  }

  #inTurn(event: JsonObject, eventId: string | null): void | Promise<void> {
    const heard = Math.ceil(this.#tokensOf(event))
    this.#context += heard
    const isCreate = event.type === 'response.create'
    const most = asObject(event.response)?.max_output_tokens
    // Replaces that of the session.
    if (isCreate && most !== undefined) this.#maxOutput = Math.max(this.#maxOutput, this.#toMaxOutput(most))
    const turn = this.#turn
    const isReserved =
      turn !== null &&
      this.#context <= turn.reserved &&
      (!isCreate || (this.#maxOutput <= turn.output && turn.asked + turn.running < turn.responses))
    if (isReserved) {
      this.#start(turn, event)
      return
    }
    return this.#whenAllowed(turn, event, eventId, heard)
  }

  async #whenAllowed(turn: Turn | null, event: JsonObject, eventId: string | null, heard: number): Promise<void> {
    let decided = turn ? await this.#raise(turn, event.type === 'response.create' ? 1 : 0) : await this.#begin()
    // It ended meanwhile.
    if (!(decided instanceof GatewayError) && decided !== this.#turn) decided = await this.#begin()
    if (decided instanceof GatewayError) {
      // A rate is free again soon; a budget isn't, but covers the responses under way.
      const isRate = decided.kind === 'request_limit' || decided.kind === 'token_limit'
      if (!isRate && (this.#turn === null || !isBusy(this.#turn))) return this.#closeWith(decided)
      this.#context -= heard
      return this.#refuse(Object.assign(decided, { eventId }))
    }
    this.#start(decided, event)
  }

  #start(turn: Turn, event: JsonObject): void {
    if (this.#isClosed || this.#client === null) return
    if (event.type === 'response.create') turn.asked++
    this.#send(event)
  }

  /** Replaces names of models, and returns what may not be sent, as a sentence. */
  #adapt(event: JsonObject): string | null {
    for (const settings of [asObject(event.session), asObject(event.response)]) {
      const wrong = settings && this.#adaptSettings(settings)
      if (wrong) return wrong
    }
    return null
  }

  #adaptSettings(settings: JsonObject): string | null {
    const { model, target } = this.#found
    if (settings.model !== undefined) {
      const named = visibleModel(this.#deps.live.snapshot, this.#key, asText(settings.model))
      if (named?.model.facts.id !== model.facts.id) return 'The model of a session is chosen in its URL.'
      settings.model = target.upstreamModel
    }
    if (settings.prompt != null) return 'Stored prompts belong to the account of the provider. Send `instructions`.'
    const foreign = asList(settings.tools).find((tool) => asObject(tool)?.type !== 'function')
    if (foreign !== undefined) return 'Only tools of type `function` are supported.'
    const audio = asObject(settings.audio) ?? {}
    const input = asObject(audio.input) ?? {}
    for (const transcription of [asObject(input.transcription), asObject(settings.input_audio_transcription)]) {
      const named = asText(transcription?.model)
      if (!transcription || named === '') continue
      const known = this.#toUpstreamModel(named)
      if (known === null) return `The model \`${named.slice(0, 100)}\` is not available to this key for transcription.`
      transcription.model = known
    }
    return null
  }

  /** Of another model of the same upstream. */
  #toUpstreamModel(asked: string): string | null {
    const found = visibleModel(this.#deps.live.snapshot, this.#key, asked)
    const { upstream } = this.#found.target
    return found?.targets.find((target) => target.upstream.id === upstream.id)?.upstreamModel ?? null
  }

  #send(event: JsonObject): void {
    this.#upstream.send(JSON.stringify(event))
    if (this.#upstream.bufferedAmount > MAX_WAITING) void this.#closeWith(tooSlow('upstream'))
  }

  #tokensOf(event: JsonObject): number {
    if (event.type === 'input_audio_buffer.commit') return 0
    let heard = 0
    const text = JSON.stringify(event, (name, value: unknown) => {
      if (typeof value !== 'string' || (name !== 'audio' && name !== 'image_url')) return value
      heard += name === 'audio' ? (toBytes(value) / this.#heardRate) * HEARD_PER_SECOND : IMAGE_TOKENS
      return ''
    })
    return heard + (event.type === 'input_audio_buffer.append' ? 0 : text.length / BYTES_PER_TOKEN)
  }

  // ----- turns

  /** Most tokens and cost of the next response. */
  #most(): { prompt: number; completion: number; nanoUsd: number } {
    const { target } = this.#found
    const prompt = Math.min(target.contextLength, this.#context + SPARE_TOKENS)
    const completion = Math.min(this.#maxOutput, target.maxOutputLength)
    const tariff = toMaxTariff(target.pricing, prompt)
    const usage = { ...NO_USAGE, prompt, completion, audioPrompt: prompt, audioCompletion: completion }
    return { prompt, completion, nanoUsd: tariff ? chargeBy(tariff, usage) : 0 }
  }

  /** @param more responses. */
  async #raise(turn: Turn, more: number): Promise<Decision<Turn>> {
    const { prompt, completion, nanoUsd } = this.#most()
    const responses = Math.max(turn.responses, turn.asked + turn.running + more)
    const used = chargeOf(this.#found.target, turn.usage)
    const tokens = turn.usage.prompt + (prompt + Math.min(completion, LIKELY_OUTPUT)) * responses
    const refused = await turn.raise(tokens, used + nanoUsd * responses)
    if (refused) return refused
    Object.assign(turn, { reserved: prompt, output: completion, responses })
    return turn
  }

  /** What both sides send at once is of one turn. */
  #begin(): Promise<Decision<Turn>> {
    if (this.#turn) return Promise.resolve(this.#turn)
    this.#beginning ??= this.#beginTurn()
      .catch(toGatewayError)
      .finally(() => {
        this.#beginning = null
      })
    return this.#beginning
  }

  async #beginTurn(): Promise<Decision<Turn>> {
    const { limiter, ledger, counter, disconnectedCalls, now, monotonicMs, instance, load } = this.#deps
    const { model, target, used } = this.#found
    if (this.#isClosed) return hasLeft()
    const key = this.#access()
    if (key instanceof GatewayError) return key
    const team = teamOf(this.#deps.live.snapshot, key)
    if (load.isDraining) return new GatewayError('stopped', 'The server is restarting. Connect again.')
    const createdMs = now()
    const id = mintId(createdMs)
    const moment = { monotonicMs: monotonicMs(), wallMs: createdMs }
    const entered = await limiter.enter(id, key, team, moment.monotonicMs)
    if (entered instanceof GatewayError) return this.#noteRefusal(entered)
    const { prompt, completion, nanoUsd } = this.#most()
    const tokens = prompt + Math.min(completion, LIKELY_OUTPUT)
    const isBudgeted = Boolean(key.budget || team?.budget)
    const reservation = await entered.admit({ tokens, nanoUsd: isBudgeted ? nanoUsd : 0 }, moment)
    if (reservation instanceof GatewayError) {
      await entered.refuse(reservation, moment.monotonicMs)
      return this.#noteRefusal(reservation)
    }
    const permit = await limiter.permit(target.upstream, tokens, moment.monotonicMs)
    if (permit instanceof UpstreamError) {
      reservation.cancel()
      return toGatewayError(permit)
    }
    const reserve = { reservedPromptTokens: prompt, reservedCompletionTokens: completion, reservedNanoUsd: nanoUsd }
    const row: OpenRow = {
      ...{
        id,
        instance,
        keyId: key.id,
        teamId: key.teamId,
        model: model.facts.id,
        endpoint: 'realtime',
        lane: 'native',
      },
      ...{ upstream: target.upstream.id, upstreamModel: target.upstreamModel, stream: 1, createdMs, ...reserve },
      ...{ priceId: target.priceId, user: null },
    }
    try {
      await ledger.open(row)
    } catch (error) {
      permit.leave(0)
      reservation.cancel()
      return toGatewayError(error)
    }
    const { signal } = this.#found
    const body: CanonicalRequest = { model: model.facts.id, messages: [], stream: true, max_tokens: completion }
    const calls = new CallLog({
      ...{ ledger, row, first: target, reservation, counter, key, signal, disconnectedCalls, now, monotonicMs },
      ...{ outputCap: null, isUncapped: false },
    })
    const call = await calls.begin({ target, used, body, passthrough: null, reason: 'first', signal: NEVER }, reserve)
    if (target.upstream.credentials.length > 1) call.meter.credential = (used ?? target.upstream).credentialNumber
    const { onFinished } = this.#deps
    const turn: Turn = {
      ...{ calls, meter: call.meter, permit, usage: { ...NO_USAGE }, others: [], asked: 0, running: 0 },
      settlement: new Settlement({
        ...{ ledger, counter, calls, reservation, readAtMs: moment.monotonicMs, monotonicMs, trace: null, onFinished },
      }),
      raise: (more, most) => reservation.raise({ tokens: more, nanoUsd: isBudgeted ? most : 0, isMore: true }),
      ...{ spokenBytes: 0, writtenBytes: 0, reserved: prompt, output: completion, responses: 1 },
    }
    this.#turn = turn
    return turn
  }

  #noteRefusal(error: GatewayError): GatewayError {
    this.#deps.refusals.note(error.kind, this.#key, this.#deps.now())
    return error
  }

  /** @param code null if it came to its end. Throws `ledger_unavailable`. */
  async #settle(turn: Turn, code: string | null): Promise<void> {
    this.#turn = null
    const { meter, usage, others } = turn
    const isCut = code !== null && isBusy(turn)
    if (isCut) addUsage(usage, this.#estimate(turn))
    meter.take([{ kind: 'usage', usage, others }])
    meter.end(isCut ? 'cut' : 'ok')
    turn.permit.leave(usage.prompt + usage.completion)
    await turn.settlement.settle({
      status: isCut ? 'cut' : 'ok',
      httpStatus: isCut && code === 'client_closed' ? 499 : 200,
      errorCode: isCut ? code : null,
    })
  }

  #estimate({ spokenBytes, writtenBytes }: Turn): Usage {
    const audioCompletion = Math.ceil((spokenBytes / this.#spokenRate) * SPOKEN_PER_SECOND)
    const completion = audioCompletion + Math.ceil(writtenBytes / BYTES_PER_TOKEN)
    const prompt = Math.min(this.#context, this.#found.target.contextLength)
    return { ...NO_USAGE, prompt, completion, audioCompletion, countedBy: 'text' }
  }

  // ----- from the upstream

  #takeFromUpstream(text: string): void | Promise<void> {
    if (this.#isClosed) return
    const event = asObject(tryJson(text))
    if (event === null) return
    const turn = this.#turn
    switch (event.type) {
      case 'session.created':
      case 'session.updated':
      case 'transcription_session.created':
      case 'transcription_session.updated':
        return this.#pass(JSON.stringify(this.#toOwnSession(event)))
      // Of the provider's account, which the keys share.
      case 'rate_limits.updated':
        return
      case 'response.created':
        if (turn === null) return this.#beginUnasked(text)
        turn.asked = Math.max(0, turn.asked - 1)
        turn.running++
        break
      case 'response.output_audio.delta':
      case 'response.audio.delta':
        if (turn) {
          turn.settlement.firstToken()
          turn.meter.take(CONTENT)
          turn.spokenBytes += toBytes(asText(event.delta))
        }
        break
      case 'response.done':
        return this.#respond(event, text)
      case 'conversation.item.input_audio_transcription.completed':
        return this.#transcribe(event, text)
      case 'error':
        return this.#reportError(event)
      default:
        if (turn && typeof event.delta === 'string') {
          turn.settlement.firstToken()
          turn.meter.take(CONTENT)
          turn.writtenBytes += event.delta.length
        }
    }
    this.#pass(text)
  }

  /** The upstream's voice detection started it after the last turn was settled. */
  async #beginUnasked(text: string): Promise<void> {
    const turn = await this.#begin()
    if (turn instanceof GatewayError) {
      this.#upstream.send('{"type":"response.cancel"}')
      return this.#closeWith(turn)
    }
    turn.running++
    this.#pass(text)
  }

  /** None of the responses that were asked for may come. */
  async #reportError(event: JsonObject): Promise<void> {
    const turn = this.#turn
    if (turn !== null && turn.asked > 0) {
      turn.asked = 0
      if (turn.running === 0) await this.#settle(turn, null)
    }
    const error = asObject(event.error)
    const message = this.#scrub(asText(error?.message))
    this.#pass(JSON.stringify(error ? { ...event, error: { ...error, message } } : event))
  }

  async #respond(event: JsonObject, text: string): Promise<void> {
    const turn = this.#turn ?? orThrow(await this.#begin())
    const used = asObject(asObject(event.response)?.usage)
    turn.running = Math.max(0, turn.running - 1)
    turn.responses = Math.max(0, turn.responses - 1)
    if (used || turn.spokenBytes + turn.writtenBytes > 0) {
      const usage = used ? toResponseUsage(used) : this.#estimate(turn)
      addUsage(turn.usage, usage)
      this.#context = usage.prompt + usage.completion
    }
    turn.spokenBytes = 0
    turn.writtenBytes = 0
    if (turn.running === 0 && turn.asked === 0) await this.#settle(turn, null)
    this.#pass(text)
  }

  async #transcribe(event: JsonObject, text: string): Promise<void> {
    const used = asObject(event.usage)
    if (used) {
      const turn = this.#turn ?? orThrow(await this.#begin())
      turn.others.push({ model: this.#transcriber ?? 'transcription', usage: toTranscriptionUsage(used) })
      // A session that only transcribes has no responses.
      if (turn.running === 0 && turn.asked === 0 && this.#isTranscription) await this.#settle(turn, null)
    }
    this.#pass(text)
  }

  #isTranscription = false

  /** With our name of the model. Takes what later estimates rest on. */
  #toOwnSession(event: JsonObject): JsonObject {
    const session = asObject(event.session)
    if (session === null) return event
    const audio = asObject(session.audio) ?? {}
    const input = asObject(audio.input) ?? {}
    const output = asObject(audio.output) ?? {}
    this.#isTranscription = session.type === 'transcription' || asText(event.type).startsWith('transcription_')
    this.#heardRate = bytesPerSecond(input.format ?? session.input_audio_format)
    this.#spokenRate = bytesPerSecond(output.format ?? session.output_audio_format)
    const transcription = asObject(input.transcription) ?? asObject(session.input_audio_transcription)
    this.#transcriber = asText(transcription?.model) || null
    const most = session.max_output_tokens ?? session.max_response_output_tokens
    this.#maxOutput = this.#toMaxOutput(most)
    const instructions = asText(session.instructions).length + JSON.stringify(session.tools ?? []).length
    this.#context = Math.max(this.#context, Math.ceil(instructions / BYTES_PER_TOKEN))
    return 'model' in session ? { ...event, session: { ...session, model: this.#found.model.facts.id } } : event
  }

  #toMaxOutput(most: unknown): number {
    const { maxOutputLength } = this.#found.target
    return typeof most === 'number' && most > 0 ? Math.min(most, maxOutputLength) : maxOutputLength
  }

  #scrub(text: string): string {
    return toPublic(text, this.#found.target.upstream)
  }

  #pass(text: string): void {
    const client = this.#client
    if (client === null || this.#isClosed) return
    // Zero: Bun keeps no more for it, and has dropped this one.
    const isSent = client.send(text) !== 0
    const waiting = client.getBufferedAmount()
    if (!isSent || waiting > MAX_WAITING || this.#hold(waiting)) void this.#closeWith(tooSlow('client'))
  }

  // ----- ends

  /** Memory for what waits. True if there is none. */
  #hold(bytes: number): boolean {
    if (bytes <= this.#held) return false
    if (this.#found.slot.take(bytes - this.#held)) return true
    this.#held = bytes
    return false
  }

  #refuse(error: Refusal): void {
    this.#pass(toErrorEvent(error, this.#deps.now()))
  }

  #fail(error: unknown): void {
    const failure = error === null ? tooSlow('client') : toGatewayError(error)
    void this.#closeWith(failure)
  }

  async #closeWith(error: GatewayError): Promise<void> {
    if (this.#isClosed) return
    this.#client?.send(toErrorEvent(error, this.#deps.now()))
    await this.#close(error.status < 500 ? 1_008 : 1_011, error.message.slice(0, 120), error.code ?? error.kind)
  }

  async #close(code: number, reason: string, errorCode: string | null): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    clearInterval(this.#timer)
    try {
      await this.#beginning
      if (this.#turn) await this.#settle(this.#turn, errorCode ?? 'stopped')
    } catch (error) {
      this.#client?.send(toErrorEvent(toGatewayError(error), this.#deps.now()))
    } finally {
      this.#upstream.close(1_000)
      this.#client?.close(code, Buffer.byteLength(reason) > 120 ? '' : reason)
      this.#caller.held.dispose()
    }
  }
}

const CONTENT = [{ kind: 'raw', name: null, data: '', origin: null, isContent: true, isTail: false }] as const

const toBytes = (base64: string) => Math.floor((base64.length * 3) / 4)

const chargeOf = (target: Target, usage: Usage): number => {
  const tariff = toMaxTariff(target.pricing, usage.prompt)
  return tariff ? chargeBy(tariff, usage) : 0
}

/** What may not be sent is an error of the upstream (RFC 6455, section 7.4). */
const toCode = (code: number): number => {
  if (code === 1_005) return 1_000
  return (code >= 1_000 && code <= 1_014 && code !== 1_004 && code !== 1_006) || (code >= 3_000 && code < 5_000)
    ? code
    : 1_011
}

/** A turn is settled by its end, also if the client has left. */
const NEVER: EndSignal = new AbortController().signal

const hasLeft = () => new GatewayError('client_closed', 'The session is closed.')

const isBusy = ({ asked, running }: Turn) => asked + running > 0

type Refusal = GatewayError & { eventId?: string | null }

function toErrorEvent({ type, code, message, param, eventId = null }: Refusal, nowMs: number): string {
  const error = { type, code, message, param, event_id: eventId }
  return JSON.stringify({ type: 'error', event_id: `event_${mintId(nowMs)}`, error })
}

const invalid = (message: string, eventId: string | null) =>
  Object.assign(new GatewayError('invalid_request', message), { eventId })

const tooSlow = (who: 'client' | 'upstream') =>
  new GatewayError('slow_reader', `The ${who} doesn't read what it is sent: more than 16 MiB are waiting.`)

/** Handles texts one after the other; what comes meanwhile waits. */
class InOrder {
  readonly #waiting: string[] = []
  #bytes = 0
  #isBusy = false
  #idle: (() => void)[] = []

  constructor(
    private readonly handle: (text: string) => void | Promise<void>,
    /** True if there is no memory for so much. */
    private readonly isTooMuch: (bytes: number) => boolean,
    /** With null: too much is waiting. */
    private readonly fail: (error: unknown) => void,
  ) {}

  take(text: string): void {
    if (!this.#isBusy) {
      this.#run(text)
      return
    }
    this.#waiting.push(text)
    this.#bytes += text.length
    if (this.#bytes > MAX_WAITING || this.isTooMuch(this.#bytes)) {
      this.#waiting.length = 0
      this.fail(null)
    }
  }

  pause(): void {
    this.#isBusy = true
  }

  resume(): void {
    this.#isBusy = false
    for (let next = this.#waiting.shift(); next !== undefined && !this.#isBusy; next = this.#waiting.shift()) {
      this.#bytes -= next.length
      this.#run(next)
      if (this.#isBusy) return
    }
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  async idle(): Promise<void> {
    if (this.#isBusy) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  #run(text: string): void {
    let handling: void | Promise<void>
    try {
      handling = this.handle(text)
    } catch (error) {
      this.fail(error)
      return
    }
    if (!(handling instanceof Promise)) return
    this.#isBusy = true
    handling.catch(this.fail).finally(() => this.resume())
  }
}
