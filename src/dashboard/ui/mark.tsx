/** A gate, half open. */
export const Mark = () => (
  <svg class="logo" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true" focusable="false">
    <path d="M4 21V6l8-3 8 3v15M4 21h16M12 3v7M8 21v-8h8v8" />
  </svg>
)
