/**
 * The endpoints: where clients post what they want answered, each in a format of its own. The body stays raw: Elysia would drop fields
 * that its schema does not name.
 */
import { Elysia } from 'elysia'
import { GatewayError, internalError } from '../domain/error.ts'
import { keysOf } from '../domain/json.ts'
import type { Key } from '../domain/snapshot.ts'
import { COUNT_PATHS, ENDPOINT_PATHS, type Endpoint } from '../domain/task.ts'
import { chat, openAiErrors } from '../formats/chat/chat.ts'
import { completions } from '../formats/completions.ts'
import { embeddings } from '../formats/embeddings/embeddings.ts'
import type { CountingFormat, ErrorFormat, Format } from '../formats/format.ts'
import { messages, messagesCounting } from '../formats/messages/messages.ts'
import { responses, responsesCounting } from '../formats/responses/responses.ts'
import type { IncomingRequest } from '../gateway/exchange.ts'
import { countTokens, type HandleDeps, handle } from '../gateway/handle.ts'
import type { RequestHeaders } from '../gateway/read.ts'
import { type IpOf, toToken } from '../keys/token.ts'
import { answerError } from './error-response.ts'
import { bearerToken, type Listener, pathOf } from './instance.ts'

/** 255 is the most that Bun takes. */
export const IDLE_SECONDS = 255

const FORMATS: Readonly<Record<Endpoint, Format>> = { chat, messages, responses, completions, embeddings }

const ENDPOINTS = keysOf(FORMATS)

/** Their formats tell the errors of the endpoints below which they are. */
const COUNTING: Readonly<Record<keyof typeof COUNT_PATHS, CountingFormat>> = {
  messages: messagesCounting,
  responses: responsesCounting,
}

/**
 * How failures are told at an endpoint, or below it; elsewhere, as at `/v1/models`, by what its client speaks: whose is Anthropic's
 * always sends the version of its API (platform.claude.com/docs/en/api/versioning).
 */
export function errorFormatOf(request: Request): ErrorFormat {
  const path = pathOf(request)
  const found = ENDPOINTS.find((name) => path === ENDPOINT_PATHS[name] || path.startsWith(`${ENDPOINT_PATHS[name]}/`))
  if (found) return FORMATS[found]
  return path.startsWith('/v1/') && request.headers.has('anthropic-version') ? messages : openAiErrors
}

/**
 * @param app the instance that listens: as part of Elysia's context its server would cost every request a property.
 * @param ipOf where a request comes from.
 */
export const endpointControllers = (deps: HandleDeps, app: Listener, ipOf: IpOf) => [
  ...ENDPOINTS.map((endpoint) => endpointController(deps, app, ipOf, endpoint)),
  ...keysOf(COUNTING).map((name) =>
    controller(app, ipOf, COUNT_PATHS[name], null, (incoming) => countTokens(deps, COUNTING[name], incoming)),
  ),
]

/** @param owner who asks, where that needs no proof. */
export const endpointController = (
  deps: HandleDeps,
  app: Listener,
  ipOf: IpOf,
  endpoint: Endpoint,
  owner: Key | null = null,
) => controller(app, ipOf, ENDPOINT_PATHS[endpoint], owner, (incoming) => handle(deps, FORMATS[endpoint], incoming))

const controller = (
  app: Listener,
  ipOf: IpOf,
  path: string,
  owner: Key | null,
  answer: (incoming: IncomingRequest) => Promise<Response>,
) =>
  new Elysia({ name: path }).use(bearerToken()).post(
    path,
    ({ request, headers, bearer }) =>
      answer({
        request,
        headers,
        owner,
        ipOf,
        token: toToken(bearer, headers),
        liftIdleLimit: () => app.server?.timeout(request, 0),
        restoreIdleLimit: () => app.server?.timeout(request, IDLE_SECONDS),
      }),
    { parse: 'none' },
  )

/** Answers a chat of somebody who needs no proof, and comes from nowhere. Throws as `handle` does. */
export const handleOwned = (deps: HandleDeps, app: Listener, request: Request, headers: RequestHeaders, owner: Key) =>
  handle(deps, chat, {
    ...{ request, headers, owner, token: null, ipOf: () => null },
    liftIdleLimit: () => app.server?.timeout(request, 0),
    restoreIdleLimit: () => app.server?.timeout(request, IDLE_SECONDS),
  })

/**
 * Chat for somebody who has signed in, as `POST /v1/chat/completions` answers it: by a key of theirs that has no secret. Who asks is
 * found out before (`admin/playground.ts`), and nothing of the body is read until then.
 */
export const createPlayground =
  (deps: HandleDeps, app: Listener) =>
  async (request: Request, headers: RequestHeaders, owner: Key): Promise<Response> => {
    try {
      return await handleOwned(deps, app, request, headers, owner)
    } catch (error) {
      return answerError(deps, request, error instanceof GatewayError ? error : internalError(error))
    }
  }
