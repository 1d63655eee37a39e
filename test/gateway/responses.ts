/** Calls a gateway by the Responses API, and checks each answer against its contract. */
import { type Gateway, startGateway } from '../support/gateway.ts'
import {
  checkResponse,
  checkResponseStream,
  type Json,
  type Options,
  type ResponseReport,
} from '../support/responses-contract.ts'

export interface Asker {
  post(body: object, init?: Pick<RequestInit, 'signal'>): Promise<Response>
  /** A whole answer. */
  ask(body: object, options?: Options): Promise<Json>
  /** A streamed one. */
  stream(body: object, options?: Options): Promise<ResponseReport>
}

export const ASKED = { model: 'acme/large', input: 'Hello there!' }

export function createAsker(baseUrl: string, key: string): Asker {
  const post: Asker['post'] = (body, init = {}) =>
    fetch(`${baseUrl}/responses`, {
      ...init,
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...ASKED, ...body }),
    })
  const orThrow = async (response: Response) => {
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
    return response
  }
  return {
    post,
    async ask(body, options) {
      return checkResponse((await (await orThrow(await post(body))).json()) as Json, options)
    },
    async stream(body, options) {
      return checkResponseStream(await (await orThrow(await post({ ...body, stream: true }))).text(), options)
    },
  }
}

export async function startResponses(...options: Parameters<typeof startGateway>): Promise<Gateway & Asker> {
  const gateway = await startGateway(...options)
  return { ...gateway, ...createAsker(gateway.app.baseUrl, gateway.key) }
}
