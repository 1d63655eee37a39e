/** Types of a package that has none, as far as tests use it. */
declare module 'oidc-provider' {
  import type { Server } from 'node:http'

  interface Account {
    accountId: string
    claims(): Record<string, unknown>
  }
  interface Configuration {
    clients: Record<string, unknown>[]
    claims: Record<string, string[]>
    findAccount(context: unknown, id: string): Account
    ttl?: Record<string, number>
    cookies?: { keys: string[] }
  }
  class Provider {
    constructor(issuer: string, configuration: Configuration)
    listen(port: number, host: string, onListening: () => void): Server
  }

  // biome-ignore lint/style/noDefaultExport: that is what it exports
  export { Provider as default }
}
