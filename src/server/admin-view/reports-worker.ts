/** Runs reports on a thread, since scanning the ledger may take seconds. */
import { type ReportRequest, report } from './report.ts'

declare const self: Worker

self.onmessage = async (event: MessageEvent<ReportRequest>) => {
  self.postMessage(await report(event.data))
}
self.postMessage('ready')
