/** Reports over the ledger, on a thread of their own: one takes seconds where it goes through much. Talks to `reports.ts` alone. */
import { type ReportRequest, report } from './report.ts'

declare const self: Worker

self.onmessage = async (event: MessageEvent<ReportRequest>) => {
  self.postMessage(await report(event.data))
}
self.postMessage('ready')
