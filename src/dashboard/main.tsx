/** Entry point of the dashboard. `README.md` explains how to add a page. */
import { render } from 'preact'
import { followLinks } from './address/address.ts'
import { App, loadFirst } from './shell/app.tsx'
import { listenToKeys } from './shell/keyboard.ts'

const root = document.getElementById('app')
if (root) {
  loadFirst()
  root.replaceChildren()
  render(<App />, root)
  followLinks()
  listenToKeys()
}
