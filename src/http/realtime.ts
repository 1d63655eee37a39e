/** WebSockets of the realtime API. The code for sessions is loaded on first use. */
import { Elysia } from 'elysia'
import { GatewayError } from '../domain/error.ts'
import { REALTIME_PATH } from '../domain/task.ts'
import { type HandleDeps, openRealtime } from '../gateway/handle.ts'
import { type IpOf, toToken } from '../keys/token.ts'
import { bearerToken, type Listener } from './instance.ts'

const PROTOCOL = 'realtime'
/** Browsers can't set headers, so OpenAI's client sends the key as a subprotocol. */
const KEY_PROTOCOL = 'openai-insecure-api-key.'

export const realtimeController = (deps: HandleDeps, app: Listener, ipOf: IpOf) =>
  new Elysia({ name: REALTIME_PATH }).use(bearerToken()).get(
    REALTIME_PATH,
    async ({ request, headers, bearer, query }) => {
      const protocols = (headers['sec-websocket-protocol'] ?? '').split(',').map((each) => each.trim())
      const keyed = protocols.find((each) => each.startsWith(KEY_PROTOCOL))?.slice(KEY_PROTOCOL.length) ?? null
      // A WebSocket no longer has the connection's address.
      const ip = ipOf(request, headers)
      const incoming = {
        ...{ request, headers, owner: null, ipOf: () => ip, token: toToken(bearer, headers) ?? keyed },
        liftIdleLimit: () => app.server?.timeout(request, 0),
        restoreIdleLimit: () => {},
      }
      const session = await openRealtime(deps, incoming, query)
      const sent = { ...session.headers, ...(protocols.includes(PROTOCOL) && { 'sec-websocket-protocol': PROTOCOL }) }
      if (app.server?.upgrade(request, { headers: sent, data: session })) return
      session.drop()
      throw new GatewayError('client_closed', 'The client disconnected before the WebSocket was open.')
    },
    { parse: 'none' },
  )

/** Explains other realtime paths; null for any other path. */
export function explainRealtime(path: string): GatewayError | null {
  if (!path.startsWith(`${REALTIME_PATH}/`)) return null
  const why =
    'WebRTC and client secrets are not supported, since their sessions bypass this server, its limits, and its record of spend.'
  return new GatewayError('unknown_url', `${why} Open a WebSocket to ${REALTIME_PATH}?model=… instead.`)
}
