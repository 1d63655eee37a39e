/** Entry point of the dashboard. `README.md` explains how to add a page. */
import { render } from 'preact'
import { followLinks } from './address/address.ts'
import { App, loadFirst } from './shell/app.tsx'
import { keepFocus } from './shell/focus.ts'
import { listenToKeys } from './shell/keyboard.ts'
// Shared by many pages. As separate scripts, they would exceed a browser's limit of six concurrent requests.
import '../domain/dialects.ts'
import '../domain/tariff.ts'
import '../identity/definition.ts'
import './keys/data.ts'
import './keys/facts.tsx'
import './keys/fields.tsx'
import './keys/warn.ts'
import './models/data.ts'
import './models/test.tsx'
import './models/words.ts'
import './overview/attention.tsx'
import './provider/picks.ts'
import './reports/filters.ts'
import './requests/statuses.ts'
import './teams/data.ts'
import './upstreams/data.ts'
import './upstreams/test.tsx'
import './ui/figure.tsx'
import './ui/form.tsx'
import './ui/resource.tsx'
import './ui/table.tsx'
import './ui/tabs.tsx'

const root = document.getElementById('app')
if (root) {
  loadFirst()
  root.replaceChildren()
  render(<App />, root)
  followLinks()
  listenToKeys()
  keepFocus()
}
