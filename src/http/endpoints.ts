/** The model endpoints, each with its format. Bodies stay raw, since Elysia would drop fields that its schema lacks. */
import { Elysia } from 'elysia'
import { GatewayError, internalError } from '../domain/error.ts'
import { keysOf } from '../domain/json.ts'
import { once } from '../domain/once.ts'
import type { Key } from '../domain/snapshot.ts'
import { COUNT_PATHS, ENDPOINT_PATHS, type Endpoint, MORE_PATHS, type OtherEndpoint } from '../domain/task.ts'
import { chat, openAiErrors } from '../formats/chat/chat.ts'
import { completions } from '../formats/completions.ts'
import { embeddings } from '../formats/embeddings/embeddings.ts'
import type { CountingFormat, ErrorFormat, Format } from '../formats/format.ts'
import { geminiErrors } from '../formats/gemini/errors.ts'
import { isGeminis, keyInUrl, toGeminiCall } from '../formats/gemini/path.ts'
import { messages, messagesCounting } from '../formats/messages/messages.ts'
import { responses, responsesCounting } from '../formats/responses/responses.ts'
import type { IncomingRequest } from '../gateway/exchange.ts'
import { countTokens, type HandleDeps, handle } from '../gateway/handle.ts'
import type { RequestHeaders } from '../gateway/read.ts'
import { type IpOf, toToken } from '../keys/token.ts'
import { onlyAt } from '../routing/access.ts'
import { answerError } from './error-response.ts'
import { bearerToken, type Listener, NoRoute, pathOf } from './instance.ts'

/** Bun's maximum. */
export const IDLE_SECONDS = 255

/** Gemini's paths contain the model. */
type Fixed = Exclude<Endpoint, 'gemini'>

const FORMATS = { chat, messages, responses, completions, embeddings } satisfies Partial<Record<Endpoint, Format>>

/** Loaded with the first request; before that, only their errors are needed. */
const LAZY: Readonly<Record<Exclude<Fixed, keyof typeof FORMATS>, () => Promise<Format>>> = {
  rerank: async () => (await import('../formats/rerank/rerank.ts')).rerank,
  speech: async () => (await import('../formats/speech/speech.ts')).speech,
  moderations: async () => (await import('../formats/moderations/moderations.ts')).moderations,
  transcriptions: async () => (await import('../formats/transcriptions/transcriptions.ts')).transcriptions,
  images: async () => (await import('../formats/images/images.ts')).images,
  image_edits: async () => (await import('../formats/images/edits.ts')).edits,
  translations: async () => (await import('../formats/transcriptions/transcriptions.ts')).translations,
}

const FIXED = keysOf(ENDPOINT_PATHS).filter((endpoint): endpoint is Fixed => endpoint !== 'gemini')

/** Cohere's clients read `message` next to OpenAI's `error`. */
const cohereErrors: ErrorFormat = {
  ...openAiErrors,
  error: (error) => ({ message: error.message, ...error.toBody() }),
}

export const errorsOf = (endpoint: Fixed): ErrorFormat =>
  isEager(endpoint) ? FORMATS[endpoint] : endpoint === 'rerank' ? cohereErrors : openAiErrors

const isEager = (endpoint: Fixed): endpoint is keyof typeof FORMATS => endpoint in FORMATS

/** For requests that don't arrive by HTTP. */
export const formatOf = async (endpoint: Fixed): Promise<Format> =>
  isEager(endpoint) ? FORMATS[endpoint] : LAZY[endpoint]()

const pathsOf = (endpoint: Fixed): readonly string[] => [
  ENDPOINT_PATHS[endpoint],
  ...(endpoint in MORE_PATHS ? MORE_PATHS[endpoint as keyof typeof MORE_PATHS] : []),
]

/** Their errors follow the format of the endpoint above them. */
const COUNTING: Readonly<Record<keyof typeof COUNT_PATHS, CountingFormat>> = {
  messages: messagesCounting,
  responses: responsesCounting,
}

/**
 * The error format of an endpoint and the paths below it. Elsewhere, such as at `/v1/models`, Anthropic's clients are
 * known by the version header that they always send (platform.claude.com/docs/en/api/versioning), and
 * Google's by their key.
 */
export function errorFormatOf(request: Request): ErrorFormat {
  const path = pathOf(request)
  const found = FIXED.find((name) => pathsOf(name).some((own) => path === own || path.startsWith(`${own}/`)))
  if (found) return errorsOf(found)
  if (isGeminis(request, path)) return geminiErrors
  return path.startsWith('/v1/') && request.headers.has('anthropic-version') ? messages : openAiErrors
}

/** @param app the listening instance: as part of Elysia's context its server would cost each request a property. */
export const endpointControllers = (deps: HandleDeps, app: Listener, ipOf: IpOf) => [
  ...FIXED.flatMap((endpoint) => endpointController(deps, app, ipOf, endpoint)),
  ...keysOf(COUNTING).map((name) =>
    controller(app, ipOf, COUNT_PATHS[name], null, (incoming) => countTokens(deps, COUNTING[name], incoming)),
  ),
]

/** Under the paths of the model list. */
export const geminiControllers = (deps: HandleDeps, app: Listener, ipOf: IpOf) =>
  ['/v1beta/models/*', '/v1/models/*'].map((path) =>
    controller(app, ipOf, path, null, (incoming) => handleGemini(deps, incoming), keyInUrl),
  )

/** @param owner the caller, if it needs no authentication. */
export const endpointController = (
  deps: HandleDeps,
  app: Listener,
  ipOf: IpOf,
  endpoint: Fixed,
  owner: Key | null = null,
) => {
  const answer = isEager(endpoint)
    ? (incoming: IncomingRequest) => handle(deps, FORMATS[endpoint], incoming)
    : lazily(LAZY[endpoint], (format, incoming) => handle(deps, format, incoming))
  return pathsOf(endpoint).map((path) => controller(app, ipOf, path, owner, answer))
}

function lazily(load: () => Promise<Format>, answer: (format: Format, incoming: IncomingRequest) => Promise<Response>) {
  const format = once(load)
  return async (incoming: IncomingRequest) => answer(await format.get(), incoming)
}

const controller = (
  app: Listener,
  ipOf: IpOf,
  path: string,
  owner: Key | null,
  answer: (incoming: IncomingRequest) => Promise<Response>,
  inUrl: (request: Request) => string | null = () => null,
) =>
  new Elysia({ name: path }).use(bearerToken()).post(
    path,
    ({ request, headers, bearer }) =>
      answer({
        request,
        headers,
        owner,
        ipOf,
        token: toToken(bearer, headers, inUrl(request)),
        liftIdleLimit: () => app.server?.timeout(request, 0),
        restoreIdleLimit: () => app.server?.timeout(request, IDLE_SECONDS),
      }),
    { parse: 'none' },
  )

/** Loaded at first use. */
async function handleGemini(deps: HandleDeps, incoming: IncomingRequest): Promise<Response> {
  const { request } = incoming
  const path = pathOf(request)
  const call = toGeminiCall(path)
  if (call === null) throw new NoRoute(request.method, path, isGeminis(request, path) ? null : 'GET')
  const { createGemini } = await import('../formats/gemini/gemini.ts')
  const isEvents = URL.parse(request.url)?.searchParams.get('alt') === 'sse'
  const made = createGemini(call.model, call.method, isEvents)
  return 'format' in made ? handle(deps, made.format, incoming) : countTokens(deps, made.counting, incoming)
}

/** Handles a request of an authenticated caller without an IP address. Throws as `handle` does. */
export async function handleOwned(
  deps: HandleDeps,
  app: Listener,
  request: Request,
  headers: RequestHeaders,
  owner: Key,
  endpoint: Fixed = 'chat',
): Promise<Response> {
  return handle(deps, isEager(endpoint) ? FORMATS[endpoint] : await LAZY[endpoint](), {
    ...{ request, headers, owner, token: null, ipOf: () => null },
    liftIdleLimit: () => app.server?.timeout(request, 0),
    restoreIdleLimit: () => app.server?.timeout(request, IDLE_SECONDS),
  })
}

/**
 * An endpoint for a signed-in user, with their key that has no secret. The caller authenticates first
 * (`admin/playground.ts`). With an upstream, only routes to it are used.
 */
export const createPlayground =
  (deps: HandleDeps, app: Listener) =>
  async (
    endpoint: 'chat' | OtherEndpoint,
    request: Request,
    headers: RequestHeaders,
    owner: Key,
    upstream: string | null,
  ): Promise<Response> => {
    try {
      const at = upstream === null ? deps : { ...deps, live: { snapshot: onlyAt(deps.live.snapshot, upstream) } }
      return await handleOwned(at, app, request, headers, owner, endpoint)
    } catch (error) {
      return answerError(deps, request, error instanceof GatewayError ? error : internalError(error))
    }
  }
