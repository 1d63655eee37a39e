/**
 * The doors: where clients post what they want answered, each in a format of its own. The body stays raw: Elysia would drop fields
 * that its schema does not name.
 */
import { Elysia } from 'elysia'
import type { Key } from '../domain/snapshot.ts'
import { chat, openAiErrors } from '../formats/chat/chat.ts'
import { completions } from '../formats/completions/completions.ts'
import { embeddings } from '../formats/embeddings/embeddings.ts'
import type { CountingFormat, ErrorFormat, Format } from '../formats/format.ts'
import { messages, messagesCounting } from '../formats/messages/messages.ts'
import { responses, responsesCounting } from '../formats/responses/responses.ts'
import { countTokens } from '../gateway/count-tokens.ts'
import { type HandleDeps, handle, type IncomingRequest } from '../gateway/handle.ts'
import { type IpOf, toToken } from '../keys/token.ts'
import { bearerToken, type Listener, pathOf } from './instance.ts'

/** 255 is the most that Bun takes. */
export const IDLE_SECONDS = 255

interface Door {
  path: string
  format: Format
}

export const CHAT: Door = { path: '/v1/chat/completions', format: chat }

export const RESPONSES: Door = { path: '/v1/responses', format: responses }

export const DOORS: readonly Door[] = [
  CHAT,
  { path: '/v1/messages', format: messages },
  RESPONSES,
  { path: '/v1/completions', format: completions },
  { path: '/v1/embeddings', format: embeddings },
]

/**
 * How failures are told at a door, or below it; elsewhere, as at `/v1/models`, by what its client speaks: whose is Anthropic's
 * always sends the version of its API (platform.claude.com/docs/en/api/versioning).
 */
export function errorFormatOf(request: Request): ErrorFormat {
  const path = pathOf(request)
  const door = DOORS.find((door) => path === door.path || path.startsWith(`${door.path}/`))
  if (door) return door.format
  return path.startsWith('/v1/') && request.headers.has('anthropic-version') ? messages : openAiErrors
}

/**
 * @param app the instance that listens: as part of Elysia's context its server would cost every request a property.
 * @param ipOf where a request comes from.
 * @param owner who asks, where that needs no proof.
 */
export const doorController = (
  deps: HandleDeps,
  app: Listener,
  ipOf: IpOf,
  { path, format }: Door,
  owner: Key | null = null,
) => controller(app, ipOf, path, owner, (incoming) => handle(deps, format, incoming))

/** Paths that count the tokens of a request, each below the door that it belongs to, whose format tells its errors. */
export const COUNTS: readonly { path: string; format: CountingFormat }[] = [
  { path: '/v1/messages/count_tokens', format: messagesCounting },
  { path: `${RESPONSES.path}/input_tokens`, format: responsesCounting },
]

export const countController = (
  deps: HandleDeps,
  app: Listener,
  ipOf: IpOf,
  { path, format }: (typeof COUNTS)[number],
) => controller(app, ipOf, path, null, (incoming) => countTokens(deps, format, incoming))

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
