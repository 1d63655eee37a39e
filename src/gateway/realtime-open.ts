/** Opens a realtime session. Connects to a target before upgrading the client, so that a refusal has an HTTP status. */
import type { EndSignal } from '../domain/end-signal.ts'
import { GatewayError, orThrow, UpstreamError } from '../domain/error.ts'
import type { CatalogModel, Key, Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import { listedNames, listedTargets, teamOf } from '../routing/access.ts'
import { checkEndpoint, order, resolve } from '../routing/route.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { connectRealtime } from '../upstreams/realtime.ts'
import type { AdmissionSlot } from './admission.ts'
import { noneReady } from './calls.ts'
import type { Authenticated } from './exchange.ts'
import type { HandleDeps } from './handle.ts'
import { RealtimeSession } from './realtime.ts'

export interface Found {
  /** The session's slot. */
  slot: AdmissionSlot
  /** Aborts when the client disconnects. */
  controller: AbortController
  /** Aborts when the client disconnects or the server stops. */
  signal: EndSignal
  model: CatalogModel
  target: Target
  /** The upstream with the credential in use; null if it has at most one. */
  used: Upstream | null
  /** True for sessions that only transcribe, without responses. */
  isTranscription: boolean
}

/** Throws a GatewayError or an UpstreamError. */
export async function openSession(
  deps: HandleDeps,
  caller: Authenticated,
  { model: named = '', intent = '', call_id: call }: Readonly<Record<string, string>>,
): Promise<RealtimeSession> {
  if (caller.incoming.headers.upgrade?.toLowerCase() !== 'websocket') throw notAWebSocket()
  const { snapshot, key, id } = caller
  if (call !== undefined) throw invalid('Calls by WebRTC or SIP are not supported.', 'call_id')
  const isTranscription = intent === 'transcription'
  if (intent !== '' && !isTranscription) throw invalid('`intent` must be `transcription`, or absent.', 'intent')
  const asked = named === '' && isTranscription ? firstTranscriber(snapshot, key) : named
  if (asked === '') throw invalid('Name a model: `?model=…`.', 'model')
  const slot = orThrow(deps.load.enter(key, 'sessions'))
  caller.held.use(slot)
  const { model, targets } = orThrow(resolve(snapshot, key, asked))
  const able = isFit(model, isTranscription) ? targets.filter(isRealtime) : []
  if (able.length === 0) throw checkEndpoint('realtime', model.facts) ?? noRealtime(model)
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
      const upstream = await connectRealtime(target, used ?? target.upstream, `${id}-1`, isTranscription, signal)
      health.report(target, 'ok', used)
      const found: Found = { slot, controller, signal, model, target, used, isTranscription }
      return new RealtimeSession(deps, caller, found, upstream)
    } catch (error) {
      last = error
      health.report(target, error instanceof UpstreamError ? error : 'aborted', used)
      if (!(error instanceof UpstreamError) || error.kind === 'aborted') break
      error.upstream ??= target.upstream.id
    }
  }
  throw last ?? noneReady(health, able)
}

/** Models that make audio may support realtime even if they aren't marked so: their upstream decides. */
const isFit = ({ facts: { output_modalities: made } }: CatalogModel, isTranscription: boolean): boolean =>
  made.some((one) => one === 'realtime' || one === 'audio' || (isTranscription && one === 'transcription'))

const isRealtime = ({ upstream }: Target) => dialectOf(upstream).hasRealtime && upstream.baseUrl !== null

/** For transcription, OpenAI's clients name no model. '' if the key has none. */
const firstTranscriber = (snapshot: Snapshot, key: Key): string =>
  listedNames(snapshot).find(
    (name) =>
      name.model.facts.output_modalities.includes('transcription') &&
      listedTargets(key, teamOf(snapshot, key), name)?.some(isRealtime),
  )?.id ?? ''

const invalid = (message: string, param: string) => new GatewayError('invalid_request', message, { param })

const notAWebSocket = () =>
  new GatewayError('invalid_request', 'The realtime API needs a WebSocket.', {
    ...{ status: 426, code: 'websocket_required', headers: { upgrade: 'websocket' } },
  })

const noRealtime = ({ facts: { id } }: CatalogModel) =>
  new GatewayError(
    'invalid_request',
    `The model \`${id}\` has no upstream with OpenAI's realtime API. Use another model.`,
    { code: 'unsupported_endpoint', param: 'model' },
  )
