/** A gateway asked by the Responses API, each answer held to its contract. */
import { type Gateway, startGateway } from '../support/gateway.ts'
import {
  checkResponse,
  checkResponseStream,
  type Json,
  type Options,
  type ResponseReport,
} from '../support/responses-contract.ts'

export interface ResponsesGateway extends Gateway {
  post(body: object, headers?: Record<string, string>): Promise<Response>
  /** A whole answer. */
  ask(body: object, options?: Options): Promise<Json>
  /** A streamed one. */
  stream(body: object, options?: Options): Promise<ResponseReport>
}

export const ASKED = { model: 'acme/large', input: 'Hello there!' }

export async function startResponses(...options: Parameters<typeof startGateway>): Promise<ResponsesGateway> {
  const gateway = await startGateway(...options)
  const post: ResponsesGateway['post'] = (body, headers = {}) =>
    fetch(`${gateway.app.baseUrl}/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ ...ASKED, ...body }),
    })
  return {
    ...gateway,
    post,
    async ask(body, options) {
      const response = await post(body)
      if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
      return checkResponse((await response.json()) as Json, options)
    },
    async stream(body, options) {
      const response = await post({ ...body, stream: true })
      if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
      return checkResponseStream(await response.text(), options)
    },
  }
}
